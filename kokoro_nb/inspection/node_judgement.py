"""One node compared with its own definition in float64, on the values that it was given on the runtime."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kokoro_nb.errors import one_line
from kokoro_nb.findings import Verdict
from kokoro_nb.inspection.rounding_limits import rounding_limits
from kokoro_nb.inspection.semantics.onnx_call import NotDefined, OnnxCall, computed, widened
from kokoro_nb.inspection.semantics.quantised import BEFORE_ROUNDING
from kokoro_nb.inspection.value_types import Array, Input, NodeIdentity, Several, Value
from kokoro_nb.locate.local_error import LocalError, judged
from kokoro_nb.locate.rounding_bound import is_float, kept_wide, spacing
from kokoro_nb.locate.rule_evidence import pattern
from kokoro_nb.traces.statistics import BLOCK, describe, largest, of_peak, relative_difference
from kokoro_nb.traces.trace import Operator

Far = tuple[float, float, bool]
WIDE = "right if float32 was kept before it"
INTEGER_SLACK = 2.0**-20  # of a quotient: the scale, the quotient and the sum are each rounded in float32


@dataclass(frozen=True, slots=True)
class NodeOutputError:
    """How far one output of a node is from right.

    Attributes
    ----------
    name : str
        The value's name in the file.
    dtype : str
        Its type.
    shape : tuple of int
        Its shape.
    finite, right_finite : float
        Shares of the elements that are finite, as given and as they should be, from 0 to 1. NaN of no elements.
    error : float
        Largest absolute difference where both are finite.
    peak : float
        Largest finite absolute value that is right.
    ratio : float
        The largest difference as a multiple of what rounding can do: above 1 the node is wrong. Infinite where what is
        finite and what is not differ.
    wrong : int
        Elements beyond what rounding can do.
    pattern : str
        Which channels (axis 1) are wrong, in words.
    rms : float
        Root mean square of what is finite of it.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    finite: float
    right_finite: float
    error: float
    peak: float
    ratio: float
    wrong: int
    pattern: str
    rms: float = float("nan")

    @classmethod
    def of(cls, error: LocalError) -> "NodeOutputError":
        """Return the figures of a local error, without its tensors."""
        both = error.given, error.right
        given, right = (one if one.dtype.kind == "f" else np.asarray(one, np.float64) for one in both)
        seen, sound = describe(given), float(np.isfinite(right).mean()) if right.size else float("nan")
        words = pattern(error.wrong, np.full(error.wrong.shape, np.nan)).words if error.wrong.any() else ""
        about = error.error, error.peak, error.ratio, int(error.wrong.sum()), error.form or words, seen.rms
        return cls(error.operator.name, np.dtype(error.dtype).name, given.shape, seen.finite, sound, *about)

    @property
    def ulp(self) -> float:
        """The largest difference in units in the last place of the peak; of integers, in steps."""
        dtype = np.dtype(self.dtype)
        return self.error / (float(spacing(np.asarray(self.peak), dtype)) if is_float(dtype) else 1.0)

    @property
    def is_wrong(self) -> bool:
        """Whether rounding does not explain the difference."""
        return not self.ratio <= 1


@dataclass(frozen=True, slots=True)
class NodeJudgement(NodeIdentity):
    """What was found of one node.

    Attributes
    ----------
    verdict : str
        ``pass``, ``fail``, or ``unknown`` where it could not be judged.
    reason : str
        Why the verdict is ``unknown``.
    outputs : tuple of NodeOutputError
        Each output that was compared.
    inherited : float or None
        Largest difference of an output from the same file computed in float64 from the start, as a share of its peak;
        None where that was not known.
    given_finite : bool
        Whether all its inputs were finite.
    true_finite : bool or None
        Whether the same file in float64 from the start gives finite values here; None where that was not known.
    kept_wide : bool
        Whether it is right only if its inputs were not yet rounded to 16 bits: runtimes without kernels of 16
        bits keep float32 from one node to the next.
    noise : float or None
        Root mean square of the inherited error over that of what is right; NaN where what should be finite is not.
    """

    verdict: Verdict
    reason: str = ""
    outputs: tuple[NodeOutputError, ...] = ()
    inherited: float | None = None
    given_finite: bool = True
    true_finite: bool | None = None
    kept_wide: bool = False
    noise: float | None = None

    @property
    def worst(self) -> NodeOutputError | None:
        """The output that is furthest off, as a multiple of what rounding can do."""
        return max(self.outputs, key=lambda one: np.inf if np.isnan(one.ratio) else one.ratio, default=None)

    @property
    def size(self) -> float:
        """How far that is off, by which nodes are ordered: infinite of NaN, -1 where nothing was compared."""
        ratio = -1.0 if self.worst is None else self.worst.ratio
        return np.inf if np.isnan(ratio) else ratio

    @property
    def finite(self) -> bool:
        """Whether every element of every output is finite."""
        return all(not one.finite < 1 for one in self.outputs)

    def row(self) -> dict[str, Any]:
        """Return it as a row of a table."""
        worst = self.worst
        return {
            "node": self.key,
            "operator": self.operator,
            "verdict": self.verdict,
            "shape": "x".join(map(str, worst.shape)) if worst else "",
            "type": worst.dtype if worst else "",
            "finite": f"{worst.finite:.2%}" if worst else "",
            "local error (ULP)": worst.ulp if worst else None,
            "local error / rounding": worst.ratio if worst else None,
            "inherited error (of peak)": self.inherited,
            "where": WIDE if self.kept_wide else worst.pattern if worst else self.reason,
        }


def has_halves(judgements: Sequence[NodeJudgement]) -> bool:
    """Return whether a node gives floats of 16 bits."""
    return any(one.dtype in ("float16", "bfloat16") for judgement in judgements for one in judgement.outputs)


def judgement(
    about: tuple[int, str, str],
    given_finite: bool,
    compare: Callable[[], tuple[Sequence[NodeOutputError], list[Value]]],
    far: Callable[[list[Value]], Far | None],
    wide: Callable[[Sequence[NodeOutputError]], bool] = lambda errors: False,
) -> NodeJudgement:
    """Judge one node.

    Parameters
    ----------
    about : tuple of int, str, str
        Its place, its key and its operator.
    given_finite : bool
        Whether all its inputs were finite.
    compare : callable
        Returns the errors of its outputs and what is right: see `judged_outputs`.
    far : callable
        Takes what is right, and returns what `distances` gives of the outputs and float64 from the start.
    wide : callable
        Returns whether its errors are right if float32 was kept before it.
    """
    try:
        errors, right = compare()
    except Exception as why:  # another's file on a third party's operators: it is not judged, and says why
        reason = str(why) if isinstance(why, NotDefined) else f"it could not be compared: {one_line(why)}"
        return NodeJudgement(*about, "unknown", reason)
    inherited, noise, sound = far(right) or (None, None, None)
    wrong = any(one.is_wrong for one in errors)
    kept = wrong and wide(errors)
    verdict: Verdict = "fail" if wrong and not kept else "pass"
    return NodeJudgement(*about, verdict, "", tuple(errors), inherited, given_finite, sound, kept, noise)


def distances(pairs: Iterable[tuple[Value, Value]]) -> Far:
    """Return how far numbers are from what is right: `relative_difference` and `relative_noise`, the largest of each.

    The third is whether all that is right is finite.
    """
    worst, noise, sound = 0.0, 0.0, True
    for value, right in pairs:
        sound = sound and is_finite(right)
        if isinstance(value, np.ndarray) and (is_float(value.dtype) or value.dtype.kind in "biu"):
            both = _distance(value, np.asarray(right))
            worst, noise = (float(np.maximum(*pair)) for pair in zip((worst, noise), both, strict=True))
    return worst, noise, sound


def judged_outputs(call: OnnxCall, inputs: Several, given: Several) -> tuple[tuple[NodeOutputError, ...], list[Value]]:
    """Compare what a node gave with its definition.

    Parameters
    ----------
    call : OnnxCall
        The node.
    inputs : sequence of values
        Its inputs, in the types of the file.
    given : sequence of values
        What the runtime gave, None where it was not captured.

    Returns
    -------
    tuple of NodeOutputError
        One for each output that was captured.
    list of values
        What is right, floats in float64.

    Raises
    ------
    NotDefined
        If what the node means is not known, or has another shape than what was given.
    """
    exact = computed(call, inputs)
    found = []
    for k, (name, value) in enumerate(zip(call.node.output, given, strict=False)):
        if value is None or not name:
            continue
        if isinstance(value, list):
            found += _sequence_errors(name, value, exact[k])
        else:
            found.append(_output_error(call, inputs, exact, k, name, np.asarray(value), given))
    return tuple(found), exact


def _sequence_errors(name: str, value: list[Value], right: Value) -> list[NodeOutputError]:
    """Compare a sequence item by item; each must be what it should be, to the last bit."""
    if not isinstance(right, list) or len(right) != len(value):
        raise NotDefined(f"the sequence '{name}' has {len(value)} items, not {len(right or ())}")
    pairs = zip(map(np.asarray, value), map(np.asarray, right), strict=True)
    return [compared(f"{name}[{i}]", *pair, None) for i, pair in enumerate(pairs)]


def _output_error(
    call: OnnxCall, inputs: Several, exact: list[Value], k: int, name: str, value: np.ndarray, given: Any
) -> NodeOutputError:
    right = np.asarray(exact[k])
    casts = ("Cast", "CastLike", "QuantizeLinear")
    if value.dtype == np.uint8 and right.dtype.kind == "f" and call.node.op_type in casts:
        raise NotDefined(f"the runtime hands out '{name}', floats of 8 bits, as bytes")
    if right.shape != value.shape:
        raise NotDefined(f"'{name}' has the shape {value.shape}, its definition gives {right.shape}")
    if value.dtype.kind in "OUS":
        return compared(name, (value == right).astype(np.int8), np.ones(value.shape, np.int8), None)
    if not is_float(value.dtype):
        before = _before(call, inputs, k, given)
        if before is not None:
            nearest = np.clip(value.astype(np.float64), before - 0.5, before + 0.5)  # either of two beside a tie
            return compared(name, value, nearest, INTEGER_SLACK * np.maximum(1.0, np.abs(before)))
        cast = call.node.op_type in ("Cast", "CastLike") and value.dtype.kind in "iu"
        if cast and is_float(np.asarray(inputs[0]).dtype):
            wide, info = np.asarray(inputs[0]).astype(np.float64), np.iinfo(value.dtype)
            inside = (wide > float(info.min) - 1) & (wide < float(info.max) + 1)  # beyond it nothing is defined
            value, right = np.where(inside, value, 0), np.where(inside, right, 0)
        return compared(name, value, right, None)
    last = spacing(np.asarray(right, np.float64), value.dtype)
    return compared(name, value, right, last, lambda: rounding_limits(call, inputs, exact, k, value.dtype, last))


def relative_noise(value: Value, right: Value) -> float:
    """Return the root mean square of the difference over that of what is right, where that is finite.

    NaN if the value is not finite somewhere where it should be, or the shapes differ; 0 of what is no number.
    """
    numbers = isinstance(right, np.ndarray) and isinstance(value, np.ndarray)
    return 0.0 if value is right or not numbers else _distance(value, right, False)[1]


def _distance(value: np.ndarray, right: np.ndarray, peaked: bool = True) -> tuple[float, float]:
    """Return `relative_difference`, if it is wanted, and `relative_noise`: where all is finite of one difference."""
    if value.shape != right.shape or right.dtype.kind not in "fiub":
        return relative_difference(value, right), float("nan") if right.dtype.kind in "fiub" else 0.0
    given, exact = value.ravel(), np.asarray(right, np.float64).ravel()
    peaks, energies = np.zeros(2), np.zeros(2)  # of the difference, and of what is right
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, exact.size, BLOCK):
            both = given[start:][:BLOCK].astype(np.float64) - exact[start:][:BLOCK], exact[start:][:BLOCK]
            if peaked:
                peaks = np.maximum(peaks, [np.maximum(each.max(), -each.min()) for each in both])
            energies += [np.einsum("i,i", each, each) for each in both]
        apart, (noise, signal) = of_peak(*peaks.tolist()), energies.tolist()
        if not np.isfinite(peaks if peaked else energies).all():
            apart, finite = relative_difference(value, right), np.isfinite(exact)
            noise, signal = (float(np.square(one[finite]).sum()) for one in (given.astype(np.float64) - exact, exact))
    if not np.isfinite(noise):
        return apart, float("nan")
    return apart, 0.0 if noise == 0 else float(np.sqrt(noise / signal)) if signal else float("inf")


def is_finite(value: Value) -> bool:
    """Return whether every float in a value is finite."""
    if value is None or isinstance(value, str):
        return True
    if isinstance(value, list):
        return all(map(is_finite, value))
    array = np.asarray(value)
    return not is_float(array.dtype) or bool(np.isfinite(largest(array)))


def _before(call: OnnxCall, inputs: Several, k: int, given: Any) -> np.ndarray | None:
    """Return what the node rounds to an integer, in float64, if it does so."""
    wide = [widened(value) for value in inputs]
    function = BEFORE_ROUNDING.get(call.operator)
    with np.errstate(all="ignore"):
        if function is not None:
            return np.asarray(function(call, *wide), np.float64)
        if call.node.op_type == "DynamicQuantizeLinear" and k != 1:
            used = [one if one is not None else right for one, right in zip(given, computed(call, inputs), strict=True)]
            scale, zero = float(used[1]), float(used[2])
            return np.clip(-np.minimum(0, wide[0].min(initial=0)) / scale if k == 2 else wide[0] / scale + zero, 0, 255)
    return None


def compared(name: str, value: Array, right: Array, limits: Input, rounding: Any = None) -> NodeOutputError:
    """Compare one tensor with what is right: see `kokoro_nb.locate.local_error.judged`.

    Parameters
    ----------
    name : str
        The value's name.
    value : numpy.ndarray
        As given, in its own type.
    right : numpy.ndarray
        In float64, or integers; what is beyond the range of a float type counts as infinite.
    limits : numpy.ndarray or None
        How far each element may be off; None if not at all.
    rounding : callable, optional
        Returns how far it may be off, where a difference is more than half the limit.
    """
    operator = Operator(name, "", "", (), value.shape, value.dtype.name)
    floor = 0.0 if limits is None else limits
    allowed = rounding and (lambda: (rounding(), 0.0))
    return NodeOutputError.of(judged(operator, value, np.asarray(right, np.float64), floor, allowed, enough=0.5))


def unrounded_inputs_explain(
    call: OnnxCall, inputs: Several, given: Several, errors: Sequence[NodeOutputError], constants: Collection[str]
) -> bool:
    """Return whether half a unit in the last place of inputs of 16 bits would explain all that is wrong.

    A runtime that has no kernel of 16 bits computes in float32, and need not round what it hands to the next node.
    """
    made = [None if name in constants else x for name, x in zip(call.node.input, inputs, strict=True)]
    narrow = {k: x for k, x in enumerate(made) if isinstance(x, np.ndarray) and is_float(x.dtype) and x.itemsize < 4}
    wrong, exact = {one.name for one in errors if one.is_wrong}, computed(call, inputs)
    for k, (name, value, right) in enumerate(zip(call.node.output, given, exact, strict=False)):
        if name not in wrong:
            continue
        if isinstance(right, list) or not narrow:
            return False

        def compute(moved: list[np.ndarray], k: int = k) -> Value:
            changed = dict(zip(narrow, moved, strict=True))
            return computed(call, [changed.get(place, one) for place, one in enumerate(inputs)])[k]

        value, right = np.asarray(value), np.asarray(right)
        beyond = not all(map(is_finite, narrow.values()))  # the range of 16 bits: what stays float32 need not be
        right = np.where(np.isfinite(value) & ~np.isfinite(right) & beyond, value, right)
        limits = kept_wide(compute, list(narrow.values()), right)
        if is_float(value.dtype):
            limits = limits + spacing(right, value.dtype)
        if compared(name, value, right, limits).is_wrong:
            return False
    return bool(narrow)
