"""One node compared with its own definition in float64, on the values that it was given on the runtime."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kokoro_nb.findings import Verdict
from kokoro_nb.inspection.rounding_limits import rounding_limits, spacing
from kokoro_nb.inspection.semantics.onnx_call import NotDefined, OnnxCall, computed, widened
from kokoro_nb.inspection.semantics.quantised import BEFORE_ROUNDING
from kokoro_nb.inspection.value_types import Several, Value
from kokoro_nb.locate.rounding_families import by_channel
from kokoro_nb.locate.rule_evidence import pattern

WIDE = "right if float32 was kept before it"
UNROUNDED = 4.0  # times the effect of the rounding that was drawn
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
    ulp : float
        The largest difference in units in the last place of the peak; of integers, in steps.
    ratio : float
        The largest difference as a multiple of what rounding can do: above 1 the node is wrong. Infinite where what is
        finite and what is not differ.
    wrong : int
        Elements beyond what rounding can do.
    worst : tuple of int
        Index of the worst element.
    given, right : float
        Its value as given and as it should be.
    pattern : str
        Which channels (axis 1) are wrong, in words.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    finite: float
    right_finite: float
    error: float
    peak: float
    ulp: float
    ratio: float
    wrong: int
    worst: tuple[int, ...]
    given: float
    right: float
    pattern: str

    @classmethod
    def of(cls, name: str, dtype: np.dtype, given: Any, right: Any, *measured: Any) -> "NodeOutputError":
        """Describe what was measured: largest error, peak, largest ratio, where it is wrong, and the worst index."""
        error, peak, ratio, wrong, worst = measured
        wide, exact = given.astype(np.float64), right.astype(np.float64)
        unit = float(spacing(np.asarray(peak), dtype)) if is_float(dtype) else 1.0
        finite, sound = (float(np.isfinite(one).mean()) if wide.size else float("nan") for one in (wide, exact))
        at, expected = (float(one[worst]) if wide.size else float("nan") for one in (wide, exact))
        about = name, dtype.name, wide.shape, finite, sound, error, peak, error / unit, float(ratio), int(wrong.sum())
        where = pattern(wrong, np.full(wrong.shape, np.nan)).words if wrong.any() else ""
        return cls(*about, tuple(map(int, worst)), at, expected, where)

    @property
    def is_wrong(self) -> bool:
        """Whether rounding does not explain the difference."""
        return not self.ratio <= 1


@dataclass(frozen=True, slots=True)
class NodeJudgement:
    """What was found of one node.

    Attributes
    ----------
    index : int
        Its place in the order of execution.
    key : str
        Its id in Model Explorer.
    operator : str
        The operator.
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
        Whether everything that went into it was finite.
    true_finite : bool or None
        Whether the same file in float64 from the start gives finite values here; None where that was not known.
    kept_wide : bool
        Whether it is right only if what went into it was not yet rounded to 16 bits: runtimes without kernels of 16
        bits keep float32 from one node to the next.
    noise : float or None
        Root mean square of the inherited error over that of what is right; NaN where what should be finite is not.
    """

    index: int
    key: str
    operator: str
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
    def ratio(self) -> float | None:
        """How far that is off, as a multiple of what rounding can do; None where nothing was compared."""
        return self.worst.ratio if self.worst else None

    @property
    def size(self) -> float:
        """The same by which nodes are ordered: infinite of NaN, -1 where nothing was compared."""
        return -1.0 if self.ratio is None else float("inf") if np.isnan(self.ratio) else self.ratio

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


def judged_outputs(call: OnnxCall, inputs: Several, given: Several) -> tuple[tuple[NodeOutputError, ...], list[Value]]:
    """Compare what a node gave with its definition.

    Parameters
    ----------
    call : OnnxCall
        The node.
    inputs : sequence of values
        What went into it, in the types of the file.
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
            found += _sequence_errors(call, inputs, exact, k, name, value)
        else:
            found.append(_output_error(call, inputs, exact, k, name, np.asarray(value), given))
    return tuple(found), exact


def _sequence_errors(
    call: OnnxCall, inputs: Several, exact: list[Value], k: int, name: str, value: list[Value]
) -> list[NodeOutputError]:
    """Compare a sequence item by item; each must be what it should be, to the last bit."""
    right = exact[k]
    if not isinstance(right, list) or len(right) != len(value):
        raise NotDefined(f"the sequence '{name}' has {len(value)} items, not {len(right or ())}")
    return [
        compared(f"{name}[{i}]", np.asarray(one), np.asarray(each), None)
        for i, (one, each) in enumerate(zip(value, right, strict=True))
    ]


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
        if call.node.op_type in ("Cast", "CastLike") and is_float(np.asarray(inputs[0]).dtype):
            value, right = _defined_part(value, right, np.asarray(inputs[0]))
        return compared(name, value, right, None)
    wide = value.astype(np.float64)
    right = right.astype(np.float64)
    with np.errstate(invalid="ignore"):
        differs = not (np.abs(wide - right) <= 0.5 * spacing(right, value.dtype)).all()
    limits = rounding_limits(call, inputs, exact, k, value.dtype) if differs else spacing(right, value.dtype)
    return compared(name, value, right, limits)


def is_float(dtype: np.dtype) -> bool:
    """Return whether a type is one of floats, those of ml_dtypes with it."""
    return dtype.kind == "f" or dtype.name.startswith(("bfloat16", "float"))


def relative_noise(value: Value, right: Value) -> float:
    """Return the root mean square of the difference over that of what is right, where that is finite.

    NaN if the value is not finite somewhere where it should be, or the shapes differ; 0 of what is no number.
    """
    if not isinstance(right, np.ndarray) or not isinstance(value, np.ndarray) or right.dtype.kind not in "fiub":
        return 0.0
    if value.shape != right.shape:
        return float("nan")
    given, exact = value.astype(np.float64), right.astype(np.float64)
    finite = np.isfinite(exact)
    with np.errstate(invalid="ignore"):
        noise = float(np.square(np.where(finite, given - exact, 0.0)).sum())
    signal = float(np.square(np.where(finite, exact, 0.0)).sum())
    if not np.isfinite(noise):
        return float("nan")
    return 0.0 if noise == 0 else float(np.sqrt(noise / signal)) if signal else float("inf")


def is_finite(value: Value) -> bool:
    """Return whether every float in a value is finite."""
    if value is None or isinstance(value, str):
        return True
    if isinstance(value, list):
        return all(map(is_finite, value))
    array = np.asarray(value)
    return not is_float(array.dtype) or bool(np.isfinite(array.astype(np.float64)).all())


def _before(call: OnnxCall, inputs: Several, k: int, given: Any) -> np.ndarray | None:
    """Return what the node rounds to an integer, in float64, if it does so."""
    wide = [widened(value) for value in inputs]
    function = BEFORE_ROUNDING.get((call.domain, call.node.op_type))
    with np.errstate(all="ignore"):
        if function is not None:
            return np.asarray(function(call, *wide), np.float64)
        if call.node.op_type == "DynamicQuantizeLinear" and k != 1:
            x = wide[0]
            low = np.minimum(0, x.min(initial=0))
            scale = float(given[1]) if given[1] is not None else float(np.asarray(computed(call, inputs)[1]))
            if k == 2:
                return np.asarray(np.clip(-low / scale, 0, 255))
            zero = float(given[2]) if given[2] is not None else float(np.asarray(computed(call, inputs)[2]))
            return np.clip(x / scale + zero, 0, 255)
    return None


def _defined_part(value: np.ndarray, right: np.ndarray, source: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return both with 0 where a float is beyond the integers' range: what it becomes there is not defined."""
    if value.dtype.kind not in "iu":
        return value, right
    info = np.iinfo(value.dtype)
    wide = source.astype(np.float64)
    inside = (wide > float(info.min) - 1) & (wide < float(info.max) + 1)
    return np.where(inside, value, 0), np.where(inside, right, 0)


def compared(name: str, value: np.ndarray, right: np.ndarray, limits: np.ndarray | None) -> NodeOutputError:
    """Compare one tensor with what is right.

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
    """
    wide, exact = value.astype(np.float64), right.astype(np.float64)
    if is_float(value.dtype):
        with np.errstate(over="ignore"):
            cast = exact.astype(value.dtype).astype(np.float64)
        exact = np.where(np.isfinite(cast), exact, cast)
    alike = (np.isfinite(wide) & np.isfinite(exact)) | (wide == exact) | (np.isnan(wide) & np.isnan(exact))
    with np.errstate(invalid="ignore"):
        apart = np.abs(wide - exact)
    apart = np.where(np.isfinite(apart), apart, 0.0)
    allowed = np.zeros_like(exact) if limits is None else np.broadcast_to(limits, exact.shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(apart > 0, apart / allowed, 0.0)
    ratios = np.where(alike, ratios, np.inf)
    wrong = ~(ratios <= 1)
    worst = np.unravel_index(int(np.argmax(ratios)), ratios.shape) if ratios.size else ()
    finite = np.isfinite(exact)
    peak = float(np.abs(exact[finite]).max(initial=0.0))
    return NodeOutputError.of(
        name, value.dtype, wide, exact, float(apart.max(initial=0.0)), peak, ratios.max(initial=0.0), wrong, worst
    )


def unrounded_inputs_explain(
    call: OnnxCall, inputs: Several, given: Several, errors: Sequence[NodeOutputError], constants: Collection[str]
) -> bool:
    """Return whether half a unit in the last place of inputs of 16 bits would explain all that is wrong.

    A runtime that has no kernel of 16 bits computes in float32, and need not round what it hands to the next node.
    """
    narrow = [
        k
        for k, (name, x) in enumerate(zip(call.node.input, inputs, strict=True))
        if isinstance(x, np.ndarray) and is_float(x.dtype) and x.itemsize < 4 and name not in constants
    ]
    wrong = {one.name for one in errors if one.is_wrong}
    if not narrow:
        return False
    generator = np.random.default_rng(0)
    exact = computed(call, inputs)
    apart: dict[str, np.ndarray] = {}
    for signs in ((1, 1), (-1, -1), (1, -1), (-1, 1), (0, 0)):  # the last at random
        moved = [widened(value) for value in inputs]
        for k in narrow:
            half = 0.5 * spacing(moved[k], inputs[k].dtype)
            sign = signs[k % 2] or generator.uniform(-1, 1, moved[k].shape)
            moved[k] = moved[k] + half * sign
        for name, right, other in zip(call.node.output, exact, computed(call, moved), strict=False):
            if name not in wrong:
                continue
            if isinstance(right, list) or np.shape(right) != np.shape(other):
                return False
            with np.errstate(invalid="ignore"):
                difference = np.abs(np.asarray(other, np.float64) - np.asarray(right, np.float64))
            difference = np.where(np.isfinite(difference), difference, 0.0)
            apart[name] = np.maximum(apart.get(name, 0.0), difference)
    for name, value, right in zip(call.node.output, given, exact, strict=False):
        if name not in wrong:
            continue
        limits = apart[name]
        if is_float(np.asarray(value).dtype):
            limits = np.maximum(UNROUNDED * limits, 2 * by_channel(limits)) + spacing(right, value.dtype)
        if compared(name, np.asarray(value), np.asarray(right), limits).is_wrong:
            return False
    return True
