"""Rules for what goes wrong with lengths: padding that takes part in statistics, a length that was frozen at export."""

import numpy as np

from kokoro_nb.locate.mechanism import Mechanism
from kokoro_nb.locate.rule_evidence import MOSTLY, Evidence

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
    if not all(np.isfinite(one).all() for one in (x, error.given, error.right)):
        return None
    over_all, over_part = ((part - of.mean(-1, keepdims=True)) / of.std(-1, keepdims=True) for of in (x, part))
    given = error.given.astype(np.float64)
    spread = np.square(over_all - over_all.mean(-1, keepdims=True)).sum(-1, keepdims=True)
    apart = (given - given.mean(-1, keepdims=True)) * (over_all - over_all.mean(-1, keepdims=True))
    scale = apart.sum(-1, keepdims=True) / spread
    shift = given.mean(-1, keepdims=True) - scale * over_all.mean(-1, keepdims=True)
    before = float(np.sum((given - error.right) ** 2))
    after = float(np.sum((scale * over_part + shift - error.right) ** 2))
    share = float(1 - np.sqrt(after / before)) if before else 0.0
    if not share > MOSTLY:
        return None
    text = f"right with mean and deviation of the first {valid} of {x.shape[-1]} positions, to {100 * share:.4g} %"
    words = "padding takes part in mean and deviation"
    return Mechanism("padding leaking through statistics", words, (text,), explained=share)


def frozen_length(evidence: Evidence) -> Mechanism | None:
    """Right up to a position, and behind it nothing new: zeros, or the last value that was computed again and again."""
    error, found = evidence.error, evidence.pattern
    if not error.right.ndim or error.right.shape[-1] != found.length or found.end != found.length:
        return None
    start = found.begin
    if start < 1 or found.length - start < SHORTEST or error.wrong[..., :start].any():
        return None
    tail, last = error.given[..., start:], error.given[..., start - 1 : start]
    if np.isclose(error.right[..., start:], error.right[..., start - 1 : start], rtol=1e-6, atol=0).all():
        return None  # it stands still, rightly
    for words, value in (("0", np.zeros_like(last)), (f"what it is at position {start - 1}", last)):
        if np.array_equal(tail, np.broadcast_to(value, tail.shape)):
            text = f"right at the first {start} of {found.length} positions, and behind them {words}"
            return Mechanism("frozen length", "a length that was fixed at export", (text,), explained=1.0)
    return None
