"""Which mechanisms the figures of one operator speak for: rules that can be read and extended."""

import warnings
from collections.abc import Callable
from contextlib import suppress

import numpy as np

from kokoro_nb.locate import tensor_rules
from kokoro_nb.locate.alternatives import ALTERNATIVES, of_right, other_calls
from kokoro_nb.locate.culprit import Mechanism
from kokoro_nb.locate.rounding_families import FEW
from kokoro_nb.locate.rule_evidence import HALF, Evidence, explained, explained_throughout
from kokoro_nb.traces.statistics import largest

LEVELS = 256  # of 8 bits
NEAR_FACTOR = 0.02  # of an element: how far half of them may be from a factor
FARTHEST = 8  # positions by which a result is looked for earlier and later
# edges that are no arguments; a clamp without a bound has one at infinity
EDGES = {kind: {-np.inf, np.inf} for kind in ("clamp", "clamp_min", "clamp_max")}
EDGES |= {"relu": {0.0}, "elu": {0.0}, "relu6": {0.0, 6.0}, "hardsigmoid": {0.0, 1.0}}


SQUARED = {"var": (1, True), "std": (2, True), "linalg_vector_norm": (2, False), "abs": (2, False)}
"""The power of a result that is a sum of squares, and whether that is averaged."""


def mechanisms(evidence: Evidence) -> tuple[Mechanism, ...]:
    """Return every mechanism that the evidence speaks for, the best supported first.

    One that was computed and explains the error comes before one that cannot be computed, and that before one that
    something speaks against; one that explains less than half comes last.
    """
    misshapen = evidence.error.given.shape != evidence.error.right.shape
    rules = (lowered_as_another, tensor_rules.all_pairs) if misshapen else RULES
    with np.errstate(all="ignore"), warnings.catch_warnings():  # what is not finite is looked at, too
        warnings.simplefilter("ignore", RuntimeWarning)
        found = [mechanism for mechanism in (ask(evidence) for ask in rules) if mechanism is not None]
    return tuple(sorted(found, key=_support))


def _support(mechanism: Mechanism) -> tuple[bool, bool, bool, float]:
    computed = not np.isnan(mechanism.explained)
    share = mechanism.explained if computed else 0.0
    # a factor that is fitted always comes as near as one that is known: what is computed of nothing else goes first
    return computed and share < 0.5, bool(mechanism.against), not computed, -round(share, 2)


def lowered_as_another(evidence: Evidence) -> Mechanism | None:
    """The result is that of another operator on the same arguments."""
    known = [(words, other) for kinds, words, other in ALTERNATIVES if evidence.kind in kinds.split()]
    calls = other_calls(evidence.error.operator.op, evidence.arguments)
    for words, other in (*known, *of_right(evidence.error.right, evidence.error.operator.dtype), *calls):
        try:
            instead = other(**evidence.call)
            instead = None if instead is None else np.asarray(instead, np.float64)
        except (AttributeError, IndexError, RuntimeError, StopIteration, TypeError, ValueError):
            continue  # it is of other arguments, or they are not known
        if instead is not None:
            found = explained_throughout(f"{evidence.kind} computed as {words}", evidence, instead, words)
            if found is not None:
                return found
    return None


def overflow_of_exponential(evidence: Evidence) -> Mechanism | None:
    """An exponential leaves the range of its dtype."""
    x = evidence.first
    if evidence.kind not in ("exp", "expm1", "softplus", "sinh", "cosh") or x is None:
        return None
    limit, top = float(np.log(np.finfo(evidence.error.given.dtype).max)), float(x.max())
    text = f"its largest argument is {top:.4g}, the limit {limit:.4g}"
    return Mechanism("overflow of the dtype", "an exponential that overflows", (text,)) if top > limit else None


def cast_beyond_range(evidence: Evidence) -> Mechanism | None:
    """A cast to whole numbers of what they do not hold: C leaves the result open, and runtimes differ."""
    x, dtype = evidence.first, evidence.error.given.dtype
    if evidence.kind != "_to_copy" or x is None or dtype.kind not in "iu":
        return None
    inside = (x > float(np.iinfo(dtype).min) - 1) & (x < float(np.iinfo(dtype).max) + 1)
    if (evidence.error.wrong & inside).any():
        return None
    text = f"every wrong element is a number beyond {dtype.name} before the cast"
    return Mechanism("overflow of the dtype", f"a cast to {dtype.name} of numbers beyond its range", (text,))


def branch_cut(evidence: Evidence) -> Mechanism | None:
    """atan2 of a negative x turns by 2 pi where y changes its sign, or is a zero of the other sign."""
    error = evidence.error
    if evidence.kind not in ("atan2", "angle") or not error.wrong.any():
        return None
    turns = np.abs(error.given.astype(np.float64) - error.right)[error.wrong] / np.pi
    whole = float(np.mean((np.abs(turns - 2) < 1e-3) | (np.abs(turns - 1) < 1e-3)))
    text = f"{100 * whole:.3g} % of the wrong elements are off by 2 pi or pi"
    return Mechanism("branch cut of atan2", "atan2 on the branch cut", (text,), explained=whole)


def zero_argument(evidence: Evidence) -> Mechanism | None:
    """Division by zero, or the logarithm or inverse root of zero; atan2 may be written as a quotient."""
    if evidence.kind not in ("div", "reciprocal", "rsqrt", "log", "log2", "log10", "pow", "atan2"):
        return None
    error = evidence.error
    bad = error.wrong & ~(np.isfinite(error.given) & np.isfinite(error.right))
    found = []
    for name, value in evidence.inputs.items():
        with suppress(ValueError):  # of shapes that do not go together: what was not captured lies between them
            count = int((bad & np.broadcast_to(value == 0, bad.shape)).sum())
            words = f"at {count} of {int(bad.sum())} elements that are not finite, {name} is 0"
            found += [words] if count and value.dtype.kind == "f" else []
    return Mechanism("division by zero", f"{evidence.kind} of zero", tuple(found)) if found else None


def half_range(evidence: Evidence) -> Mechanism | None:
    """A value beyond the range of float16 on its way, or among its inputs."""
    error = evidence.error
    if np.isfinite(error.given).all():
        return None
    if error.peak <= HALF:
        large = {name: size for name, one in evidence.inputs.items() if HALF < (size := largest(one)) < np.inf}
        beyond = tuple(f"the largest of {name} is {size:.4g}, above {HALF:.0f}" for name, size in large.items())
        half = error.given.dtype == np.float16 and beyond
        return Mechanism("overflow of the dtype", "the range of float16", beyond) if half else None
    text = (f"the largest right value is {error.peak:.4g}, above {HALF:.0f}",)
    within = int((~np.isfinite(error.given) & (np.abs(error.right) <= HALF)).sum())
    against = (f"{within} elements that are not finite should be within it",) if within else ()
    return Mechanism("overflow of the dtype", "the range of float16", text, against=against)


def squares_beyond_range(evidence: Evidence) -> Mechanism | None:
    """The squares in a norm, or their sum, leave the range of float16: the variance is infinite, and the result 0."""
    x, error = evidence.first, evidence.error
    norms = ("instance_norm", "group_norm", "layer_norm", "batch_norm")
    if evidence.kind not in norms or x is None or error.given.dtype != np.float16 or x.shape != error.given.shape:
        return None
    axes = tuple(range(2 if evidence.kind == "instance_norm" else 1, x.ndim))
    total = (np.square(x - x.mean(axes, keepdims=True))).sum(axes)
    lost = (~np.isfinite(error.given) | (np.ptp(error.given, axis=axes, keepdims=True) == 0)).all(axes)
    if not lost.any() or not (total[lost] > HALF).all():
        return None
    words = f"the squared deviations of a channel of its input sum to {float(total[lost].min()):.3g} or more"
    still = float(np.mean(error.wrong & np.broadcast_to(np.expand_dims(lost, axes), error.wrong.shape)))
    share = still / float(error.wrong.mean())
    text = (f"{words}, above {HALF:.0f}", f"{int(lost.sum())} of {lost.size} channels are constant or not finite")
    return Mechanism("overflow of the dtype", "squares beyond the range of float16", text, explained=share)


def squares_on_the_way(evidence: Evidence) -> Mechanism | None:
    """The squares that a length, a deviation or a variance is made of leave the range of the dtype, and it does not."""
    given, right = evidence.error.given, evidence.error.right
    lost = np.isfinite(right) & ~np.isfinite(given)
    if evidence.kind not in SQUARED or given.dtype.kind != "f" or not lost.any():
        return None
    power, averaged = SQUARED[evidence.kind]
    count = evidence.first.size / right.size if averaged and evidence.first is not None else 1
    least = float((right[lost] ** power).min()) * count
    limit = float(np.finfo(given.dtype).max)
    text = f"its squares sum to {least:.4g} or more where it is not finite, above {limit:.4g}"
    words = f"squares beyond the range of {given.dtype}"
    return Mechanism("overflow of the dtype", words, (text,), explained=1.0) if least > limit else None


def half_rounding(evidence: Evidence) -> Mechanism | None:
    """Every element of the result is a float16 number."""
    error = evidence.error
    if error.given.dtype != np.float32 or not np.isfinite(error.given).all() or not error.wrong.any():
        return None
    kept = float(np.mean(error.given.astype(np.float16).astype(np.float32) == error.given))
    anyway = float(np.mean(error.right.astype(np.float16) == error.right))
    if kept < 1 or anyway > 0.5 or len(np.unique(error.given)) < 16:
        return None  # whole numbers are float16 numbers as well
    return Mechanism("too few bits", "a result rounded to float16", ("every element is a float16 number",))


def cancelled(evidence: Evidence) -> Mechanism | None:
    """The result plus 1 is a number of its dtype: the result is a difference of such a number and 1."""
    error, given = evidence.error, np.asarray(evidence.error.given)
    if evidence.kind not in ("expm1", "elu", "selu", "celu") or given.dtype.kind != "f" or not error.wrong.any():
        return None
    one = given.dtype.type(1)
    near, exact = given[error.wrong], error.right[error.wrong].astype(given.dtype)
    if not (np.abs(near) < 0.5).all() or ((one + near) - one != near).any() or ((one + exact) - one == exact).all():
        return None
    text = f"each of the {near.size} wrong elements is a difference of 1 and a number of {given.dtype} near it"
    return Mechanism("operator lowered as another", f"{evidence.kind} computed as exp(x) - 1", (text,))


def swallowed_nan(evidence: Evidence) -> Mechanism | None:
    """A number where NaN is right: a comparison or an approximation that no NaN passes."""
    error = evidence.error
    if error.right.dtype.kind != "f":
        return None
    lost = np.isnan(error.right) & ~np.isnan(error.given)
    if not lost.any() or (error.wrong & ~lost).any():
        return None
    text = f"{int(lost.sum())} elements are NaN in float64 and a number here"
    given = [one for one in evidence.arguments.values() if isinstance(one, int | float)]
    values = set(np.unique(error.given[lost]).astype(np.float64).tolist())
    if values <= {*map(float, given), *EDGES.get(evidence.kind, ())}:
        text += f": {', '.join(f'{one:g}' for one in sorted(values))}"
        return Mechanism("operator lowered as another", "NaN taken for a bound", (text,), explained=1.0)
    return Mechanism("operator lowered as another", f"{evidence.kind} passes over NaN", (text,))


def nan_among(evidence: Evidence) -> Mechanism | None:
    """The place of an extreme is another one wherever a NaN is among the numbers, which PyTorch takes for it."""
    x, wrong, given = evidence.first, evidence.error.wrong, evidence.arguments
    if evidence.kind not in ("argmax", "argmin", "max", "min") or x is None or not wrong.any():
        return None
    among = np.isnan(x).any(axis=given.get("dim"), keepdims=bool(given.get("keepdim")))
    if among.shape != wrong.shape or (wrong & ~among).any():
        return None
    text = f"each of the {int(wrong.sum())} wrong elements has a NaN among its numbers"
    return Mechanism("operator lowered as another", f"{evidence.kind} passes over NaN", (text,))


def another_constant(evidence: Evidence) -> Mechanism | None:
    """The constant that the input is multiplied by, divided by or added to is another one."""
    right = evidence.error.right
    if evidence.kind not in ("mul", "div", "add", "sub") or len(evidence.inputs) != 1 or right.size < FEW:
        return None
    if evidence.kind in ("mul", "div"):
        factor = _factor(evidence)
        instead, words = factor * right, f"{factor:.6g} times the right value"
    else:
        off = float(np.mean(evidence.error.given.astype(np.float64) - right))
        instead, words = right + off, f"the right value {off:+.6g}"
    return explained("changed constant", "another constant", evidence, instead, words)


def quantised(evidence: Evidence) -> Mechanism | None:
    """The result lies on a grid of no more values than 8 bits have."""
    error = evidence.error
    if error.given.dtype.kind != "f" or error.given.size < 4 * LEVELS or not np.isfinite(error.given).all():
        return None
    values, counts = np.unique(error.given, return_counts=True)
    if not 2 < values.size <= LEVELS or len(np.unique(error.right)) < 4 * values.size:
        return None
    ends = float((counts[0] + counts[-1]) / error.given.size)
    text = f"{values.size} different values, {100 * ends:.3g} % of the elements at the two outermost"
    return Mechanism("quantisation range", "a result quantised to 8 bits or fewer", (text,))


def scaled(evidence: Evidence) -> Mechanism | None:
    """The result is a multiple of the right value, or its opposite."""
    factor, right = _factor(evidence), evidence.error.right.astype(np.float64)
    if right.size and np.ptp(right) == 0:
        return None  # of one number anything is a multiple
    opposite = explained("changed scale", "a turned sign", evidence, -right, "the opposite of the right value")
    if opposite is not None or not factor or abs(factor + 1) < 1e-3 or right.size < FEW:
        return opposite  # of a few numbers some factor always comes near
    near = np.isclose(evidence.error.given, factor * right, rtol=NEAR_FACTOR, atol=0)
    if near.mean() < 0.5:
        return None  # what is far larger than all the rest alone agrees
    words = f"{factor:.6g} times the right value"
    return explained("changed scale", "a factor", evidence, factor * right, words)


def _factor(evidence: Evidence) -> float:
    """Return what the right values are to be multiplied by, to come nearest to what was given; NaN as they may be."""
    given, right = evidence.error.given.astype(np.float64), evidence.error.right
    energy = float(np.sum(right**2))
    return float(np.sum(given * right)) / energy if energy else 0.0


def shifted(evidence: Evidence) -> Mechanism | None:
    """The result is the right value a few positions later or earlier along the last axis."""
    right, held = evidence.error.right, evidence.error.operator.dtype != "bool"
    for size in range(1, min(FARTHEST, right.shape[-1] // 8) + 1 if right.ndim and held else 0):
        words = f"a shift by {'one' if size == 1 else size}, as of padding"
        inside = slice(2 * size, -2 * size)  # what comes in is not known, nor what a window makes of the ends
        for step in (size, -size):
            instead = np.roll(right, step, axis=-1)
            found = explained("changed layout or shift", words, evidence, instead, f"shifted by {step:+d}", inside)
            if found is not None:
                return found
    return None


def offset(evidence: Evidence) -> Mechanism | None:
    """The result is off by one number in each channel: a bias."""
    error = evidence.error
    if not evidence.pattern.constant or error.right.ndim < 3 or error.right.shape[-1] < 2:
        return None
    off = (error.given.astype(np.float64) - error.right).mean(axis=-1, keepdims=True)
    words = "a bias dropped, doubled or wrong"
    return explained("changed constant", words, evidence, error.right + off, "off by a number per channel")


def edge(evidence: Evidence) -> Mechanism | None:
    """Wrong at the beginning or the end alone."""
    found = evidence.pattern
    span = found.end - found.begin
    side = "beginning" if found.begin == 0 else "end" if found.end == found.length else ""
    if not side or found.length < 16 or not 0 < span <= found.length // 4:
        return None
    text = f"wrong at the {side} alone: {span} of {found.length} positions"
    return Mechanism("wrong at an edge", "padding that leaks in", (text,))


RULES: list[Callable[[Evidence], Mechanism | None]] = [  # of two that are as well supported the earlier goes first
    *(lowered_as_another, tensor_rules.before_the_start, tensor_rules.all_pairs),
    *(tensor_rules.one_pass_variance, tensor_rules.short_variance, overflow_of_exponential, branch_cut),
    *(cast_beyond_range, zero_argument, half_range, squares_beyond_range, cancelled, half_rounding, swallowed_nan),
    *(squares_on_the_way, nan_among, another_constant, quantised, scaled, shifted, offset, edge),
    *(tensor_rules.padded_statistics, tensor_rules.frozen_length),
]
