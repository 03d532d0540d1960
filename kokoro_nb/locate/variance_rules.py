"""Rules for what a norm makes of a variance in one pass, E[x²] - E[x]²: digits lost, or all of them."""

import numpy as np

from kokoro_nb.locate.mechanism import Mechanism
from kokoro_nb.locate.rule_evidence import MOSTLY, Evidence

STATEMENT = "a variance in one pass, E[x²] - E[x]²"
STEEP = 30.0  # mean² / variance from which one pass costs more digits than the rounding of the norm itself
ROUNDINGS = 4  # of E[x²] and E[x]² in a variance, and of a mean


def one_pass_variance(evidence: Evidence) -> Mechanism | None:
    """E[x²] - E[x]² loses all digits where the mean is large beside the deviation."""
    x = evidence.first
    if evidence.kind not in ("instance_norm", "batch_norm", "group_norm", "layer_norm", "var", "rsqrt") or x is None:
        return None
    if x.ndim < 3 or not evidence.pattern.channels or x.shape[1] != evidence.pattern.channels:
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        flat = np.moveaxis(x, 1, 0).reshape(x.shape[1], -1)
        steep = flat.mean(axis=1) ** 2 / flat.var(axis=1)
    whole = [channel for channel in evidence.pattern.whole if not np.isfinite(evidence.error.given[:, channel]).all()]
    # the worst of them: a channel that is off by a few digits may have lost them to a smaller mean
    bad = whole or list(evidence.pattern.whole or evidence.pattern.partly)
    good = [
        channel for channel in range(x.shape[1]) if channel not in {*evidence.pattern.whole, *evidence.pattern.partly}
    ]
    lowest = float(steep[bad].min())
    if not lowest > 1e4:
        return None
    text: tuple[str, ...] = (f"mean² / variance of its input is {lowest:.2g} or more in the wrong channels",)
    against: tuple[str, ...] = ()
    if good and float(steep[good].max()) > lowest:
        against = (f"a channel that is right has {float(steep[good].max()):.2g}",)
    elif good:
        text += (f"and {float(steep[good].max()):.2g} at most in the others",)
    return Mechanism("one-pass variance", STATEMENT, text, against=against)


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
    rounding = ROUNDINGS * float(np.finfo(error.given.dtype).eps) / 2 * np.abs(gain)
    shifted = np.abs(off) > rounding * np.abs(mean)
    if not left < 1 - MOSTLY or shifted.any() or not (np.abs(slope) <= rounding * steep).all():
        return None
    factor = float(np.abs(slope / gain).max())
    text = f"what is wrong is the factor of the deviation, by {factor:.2g} at most, to {100 * (1 - left):.4g} %"
    steepest = f"mean² / variance of its input is {float(steep.min()):.3g} or more there"
    return Mechanism("one-pass variance", STATEMENT, (text, steepest), explained=1 - left)
