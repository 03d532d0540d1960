"""Rules for what reads where indices point, for lengths that were padded or frozen, and for variances in one pass."""

from typing import Any

import numpy as np

from kokoro_nb.locate.culprit import Mechanism
from kokoro_nb.locate.forms import is_mask
from kokoro_nb.locate.local_error import peak_of
from kokoro_nb.locate.rule_evidence import MOSTLY, NEAR, Evidence, explained_throughout, nearer
from kokoro_nb.locate.tensor_forms import from_the_start, places

BEFORE = "an index counted from the end read before the tensor"
PAIRS = "all pairs of the indices"


def before_the_start(evidence: Evidence) -> Mechanism | None:
    """Only elements at negative indices are wrong: what was read lies before the tensor, or in an earlier row of it."""
    x, indices = _indexed(evidence)
    error = evidence.error
    if x is None or not error.wrong.any():
        return None
    read, back = (np.asarray(places(x.shape, one)) for one in (indices, from_the_start(x.shape, indices)))
    if read.shape != error.wrong.shape or (error.wrong & (read == back)).any():
        return None
    count = int((read != back).sum())
    text = f"{int(error.wrong.sum())} of the {count} elements that a negative index points at are wrong, and no other"
    inside = (read >= 0) & (read != back)
    known = np.asarray(x, np.float64).ravel()
    there, near = known[np.where(inside, read, 0)], NEAR * peak_of(known)  # it may have been computed along
    alike = np.isclose(np.asarray(error.given, np.float64), there, rtol=1e-6, atol=near, equal_nan=True) & inside
    if inside.any() and not alike[inside].all():
        return None
    found = f"{int(inside.sum())} of them are what stands as many places before the tensor's own rows"
    return Mechanism("operator lowered as another", BEFORE, (text, *([found] if inside.any() else ())), explained=1.0)


def all_pairs(evidence: Evidence) -> Mechanism | None:
    """Several index tensors were applied one after another, which gives all pairs of their indices."""
    x, indices = _indexed(evidence)
    if x is None or len(indices) < 2:
        return None
    taken = x
    for axis in sorted(indices, reverse=True):
        taken = np.take(taken, indices[axis].reshape(-1), axis)
    shapes = f"{evidence.error.given.shape} in place of {evidence.error.right.shape}"
    return explained_throughout(PAIRS, evidence, taken, f"what {PAIRS} pick, {shapes}")


def _indexed(evidence: Evidence) -> tuple[np.ndarray | None, dict[int, Any]]:
    """Return the tensor and axis -> whole numbers that index it; None where the operator is none that indexes."""
    import torch

    given: Any = evidence.arguments
    x = given.get("self")
    if evidence.kind not in ("select", "index") or x is None:
        return None, {}
    if evidence.kind == "select":
        return x, {given["dim"] % x.ndim: torch.tensor(given["index"])}
    indices = {axis: torch.tensor(one) for axis, one in enumerate(given["indices"]) if one is not None}
    return (None, {}) if any(map(is_mask, indices.values())) else (x, indices)


NORMS = ("instance_norm", "layer_norm", "group_norm", "batch_norm", "native_group_norm", "var", "mean", "std")
SHORTEST = 4  # positions from which a tail that stands still says something


def padded_statistics(evidence: Evidence) -> Mechanism | None:
    """Mean and deviation of a buffer that is longer than what is in it: those of the valid part give what is right.

    The weight and bias of the norm are fitted to what was given with the statistics of the whole buffer; with those of
    the valid part they have to give what is right.
    """
    x, error = evidence.first, evidence.error
    if evidence.kind not in NORMS or x is None or error.right.ndim < 2 or x.ndim != error.right.ndim:
        return None
    valid = error.right.shape[-1]
    if x.shape[:-1] != error.right.shape[:-1] or not SHORTEST <= valid < x.shape[-1]:
        return None
    part = x[..., :valid]
    over_all, over_part = ((part - of.mean(-1, keepdims=True)) / of.std(-1, keepdims=True) for of in (x, part))
    given = error.given.astype(np.float64)
    spread = np.square(over_all - over_all.mean(-1, keepdims=True)).sum(-1, keepdims=True)
    apart = (given - given.mean(-1, keepdims=True)) * (over_all - over_all.mean(-1, keepdims=True))
    scale = apart.sum(-1, keepdims=True) / spread
    shift = given.mean(-1, keepdims=True) - scale * over_all.mean(-1, keepdims=True)
    share = nearer(error.right, given, scale * over_part + shift)
    if not share > MOSTLY:  # nor if it is NaN, for something is not finite
        return None
    text = f"right with mean and deviation of the first {valid} of {x.shape[-1]} positions, to {100 * share:.4g} %"
    words = "padding takes part in mean and deviation"
    return Mechanism("padding leaking through statistics", words, (text,), explained=share)


def frozen_length(evidence: Evidence) -> Mechanism | None:
    """Right up to a position, and behind it nothing new: zeros, or the last value that was computed again and again."""
    error, found = evidence.error, evidence.pattern
    if error.form or not error.right.ndim or error.right.shape[-1] != found.length or found.end != found.length:
        return None
    start = found.begin
    if start < 1 or found.length - start < SHORTEST or error.wrong[..., :start].any():
        return None
    tail, last = error.given[..., start:], error.given[..., start - 1 : start]
    if np.isclose(error.right[..., start:], error.right[..., start - 1 : start], rtol=1e-6, atol=0).all():
        return None  # it stands still, rightly
    for words, value in (("0", np.zeros_like(last)), (f"the value at position {start - 1}", last)):
        if np.array_equal(tail, np.broadcast_to(value, tail.shape)):
            text = f"right at the first {start} of {found.length} positions, and behind them {words}"
            return Mechanism("frozen length", "a length that was fixed at export", (text,), explained=1.0)
    return None


STATEMENT = "a variance in one pass, E[x²] - E[x]²"
STEEP = 30.0  # mean² / variance from which one pass costs more digits than the rounding of the norm itself
LONG = 256  # terms of a sum, beyond which those that are added one by one lose more
ROUNDINGS = 4  # of E[x²] and E[x]² in a variance, and of a mean


def one_pass_variance(evidence: Evidence) -> Mechanism | None:
    """E[x²] - E[x]² loses all digits where the mean is large beside the deviation."""
    x = evidence.first
    if evidence.kind not in ("instance_norm", "batch_norm", "group_norm", "layer_norm", "var", "rsqrt") or x is None:
        return None
    if x.ndim < 3 or not evidence.pattern.channels or x.shape[1] != evidence.pattern.channels:
        return None
    flat = np.moveaxis(x, 1, 0).reshape(x.shape[1], -1)
    steep = flat.mean(axis=1) ** 2 / flat.var(axis=1)
    whole = [channel for channel in evidence.pattern.whole if not np.isfinite(evidence.error.given[:, channel]).all()]
    # the worst of them: a channel that is off by a few digits may have lost them to a smaller mean
    good = np.delete(steep, [*evidence.pattern.whole, *evidence.pattern.partly])
    lowest = float(steep[whole or list(evidence.pattern.whole or evidence.pattern.partly)].min())
    if not lowest > 1e4:
        return None
    text = (f"mean² / variance of its input is {lowest:.2g} or more in the wrong channels",)
    against = (f"a channel that is right has {good.max():.2g}",) if good.size and good.max() > lowest else ()
    others = (f"and {good.max():.2g} at most in the others",) if good.size and not against else ()
    return Mechanism("one-pass variance", STATEMENT, (*text, *others), against=against)


def short_variance(evidence: Evidence) -> Mechanism | None:
    """A few digits of the variance are lost: what is wrong is the factor of the deviation, and nothing else.

    A variance that is off by a share of itself scales every normalised value alike; one pass loses up to
    mean² / variance times the rounding of a square. The mean, too, is rounded, which shifts all of them by far less. An
    error of another form, or a larger one, has another cause.
    """
    x, error = evidence.first, evidence.error
    if evidence.kind != "instance_norm" or x is None or x.shape != error.right.shape or x.ndim < 3:
        return None
    if error.given.dtype.kind != "f" or not np.isfinite(error.given).all() or not np.isfinite(x).all():
        return None
    wrong = error.wrong.any(axis=tuple(range(2, x.ndim)))
    rows, given, right = (one.reshape(*one.shape[:2], -1)[wrong] for one in (x, error.given, error.right))
    mean, spread = rows.mean(-1, keepdims=True), rows.var(-1, keepdims=True)
    if not rows.size or not (mean**2 > STEEP * spread).all() or not (spread > 0).all():
        return None
    steep, apart, centred = mean**2 / spread, given.astype(np.float64) - right, rows - mean
    off = apart.mean(-1, keepdims=True)
    slope, gain = ((one * centred).mean(-1, keepdims=True) / spread for one in (apart, right))
    left = float(np.sqrt(np.square(apart - slope * centred - off).sum() / np.square(apart).sum()))
    one_by_one = np.maximum(1.0, np.sqrt(rows.shape[-1] / LONG))  # rounding errors, on their random walk
    rounding = ROUNDINGS * one_by_one * float(np.finfo(error.given.dtype).eps) / 2 * np.abs(gain)
    shifted = np.abs(off) > rounding * np.abs(mean)
    if not left < 1 - MOSTLY or shifted.any() or not (np.abs(slope) <= rounding * steep).all():
        return None
    factor = float(np.abs(slope / gain).max())
    text = f"the error is in the factor of the deviation, by {factor:.2g} at most, to {100 * (1 - left):.4g} %"
    steepest = f"mean² / variance of its input is {float(steep.min()):.3g} or more there"
    return Mechanism("one-pass variance", STATEMENT, (text, steepest), explained=1 - left)
