"""What an operator did wrong itself, apart from what went wrong before it.

The operator is computed in float64 on the very inputs that it had. What the backend gave differs from that by its
own error, whatever its inputs were. Rounding is allowed for by a bound derived for its family of operators (see
`rounding_families`); of others, by what rounding does to them on these inputs: the same in float32, and again in
float64 with the last bits of the inputs changed.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kokoro_nb.backends.signature import BFLOAT16, array_of, epsilon
from kokoro_nb.errors import InputError
from kokoro_nb.locate.rounding_bound import RoundingBound, apart, is_float, kept_wide, measured, nudged, units
from kokoro_nb.locate.rounding_families import by_channel
from kokoro_nb.traces.statistics import largest, of_peak
from kokoro_nb.traces.trace import CONSTANT, INPUT, VIEWS, Given, Meaning, Operator, Trace

THROUGH = 1.01  # how many times what bounded rounding before it does to a result: a bound is nine deviations already


@dataclass(frozen=True, eq=False)
class LocalError:
    """One operator compared with itself in float64, on the same inputs.

    Attributes
    ----------
    operator : Operator
        The operator.
    error : float
        Largest absolute difference where both are finite.
    peak : float
        Largest finite absolute value that is right.
    ratio : float
        How many times the rounding-error bound: above 1 the operator is wrong. Judged by channel (axis 1 of two axes or
        more, of 8 elements or more, else the whole). Infinite where something finite is right and something else was
        given, or the other way round, or where integers or truth values differ.
    wrong : numpy.ndarray, of the operator's shape, bool
        The elements that rounding does not explain.
    given, right : numpy.ndarray, of the operator's shape
        What the backend gave, and what is right, floats in float64; of complex numbers, the parts along a last axis.
        These three are empty once they were let go.
    along : tuple of str
        Operators that were not captured and were computed along with it: the fault may be in one of them.
    bound : float
        Largest error that rounding explains at any element, absolute: 0 of integers and truth values. An operator
        within it is right for its `dtype`, which may still be too little for the output. NaN if it is not known.
    dtype : str
        In which the backend gave the result, as NumPy calls it: what `bound` was computed for.
    form : str
        What is wrong with the shape or the kind of number, ``shape (3, 6, 3) in place of (3, 6)``; empty if neither is.
    """

    operator: Operator
    error: float
    peak: float
    ratio: float
    wrong: np.ndarray
    given: np.ndarray
    right: np.ndarray
    along: tuple[str, ...]
    bound: float = float("nan")
    dtype: str = ""
    form: str = ""

    def without_tensors(self) -> "LocalError":
        """Return the figures alone."""
        nothing = np.empty(0)
        return replace(self, wrong=nothing, given=nothing, right=nothing)

    @property
    def unexplained(self) -> bool:
        """Whether the operator is wrong: rounding does not explain its error."""
        return self.ratio > 1

    @property
    def of_peak(self) -> float:
        """The error as a share of the peak."""
        return of_peak(self.error, self.peak)

    @property
    def of_peak_or_nan(self) -> float:
        """The same; NaN where an element is not finite that should be, or is that should not."""
        return self.of_peak if np.array_equal(np.isfinite(self.given), np.isfinite(self.right)) else float("nan")

    @property
    def bound_of_peak(self) -> float:
        """The bound as a share of the peak, infinite where only 0 is right and any error is allowed."""
        return self.bound if np.isnan(self.bound) else of_peak(self.bound, self.peak)


class Judge:
    """Holds the operators of one run against what they should compute.

    Parameters
    ----------
    meaning : Meaning
        What they should compute.
    candidate : Trace
        The run, with whole tensors.

    Raises
    ------
    InputError
        If the trace holds statistics alone.
    """

    def __init__(self, meaning: Meaning, candidate: Trace):
        if any(tap.value is None for tap in candidate.taps):
            raise InputError("The trace holds statistics alone; take it with keep='full' to judge its operators.")
        self.operators: Mapping[str, Operator] = {operator.name: operator for operator in meaning.operators}
        unknown = [tap.name for tap in candidate.taps if tap.name not in self.operators]
        if unknown:
            raise InputError(f"The reference has no operator '{unknown[0]}'; the traces are of different programs.")
        self.candidate, self._meaning = candidate, meaning
        self._inputs, self._captured = candidate.inputs, candidate.values

    def error(self, name: str, *, fully: bool = False) -> LocalError:
        """Return the local error of the captured operator `name`.

        Its bound is no wider than it takes to judge what was given; `fully`, it is all that rounding explains.
        """
        operator, along = self.operators[name], self.along(name)
        given, exact = parts(self._captured[name]), self.right(name)
        elsewhere = exact.shape != operator.shape  # at another length than the example's
        if given.shape != exact.shape and given.size == exact.size and (elsewhere or operator.kind in VIEWS):
            given = given.reshape(exact.shape)  # a runtime shows a view as the memory that it is of
        form = _form(given, exact, operator)
        if form:
            return replace(_misformed(operator, given, exact, form), along=along)
        if not np.issubdtype(given.dtype, np.floating):
            # 0.1 in float32 is not above 0.1 in float32: what the program itself says counts as right, too
            single = self._computed(name, self._inputs, self._captured, double=False)
            others = [one for one in (single, *self._of_rounded(name)) if one.shape == given.shape]
            near = np.logical_or.reduce([given == one for one in others])
            found = judged(operator, given, np.where(near, given, exact), 0.0)
            return replace(found, peak=peak_of(exact), right=exact, along=along)
        odd = np.isfinite(given) != np.isfinite(exact)
        if odd.any():  # right as well: what PyTorch gives in the program's own dtype, and a result of what stayed wide
            single = self._computed(name, self._inputs, self._captured, double=False)
            same = np.where(np.isfinite(given), self._overflowed(name), alike(given, single))
            exact = np.where(odd & same, given, exact)
        held = str(given.dtype)
        dtype = BFLOAT16 if (operator.dtype, held) == (BFLOAT16, "float32") else held  # which holds its numbers
        floor = units(exact, epsilon(dtype))

        def rounding() -> tuple[np.ndarray, Any]:
            bound = RoundingBound(dtype)
            self._meaning.recompute(name, self._inputs, self._captured, substitute=bound)
            allowed = floor + self._rounding(name, dtype, exact, bound) + self._captured_coarsely(name, exact)
            if bound.steps is None or along:
                return allowed, 0.0
            return allowed, _step_shares(given - exact, bound.steps.numpy() + 2 * floor, bound.axis)

        found = judged(operator, given, exact, floor, rounding, enough=-1.0 if fully else 1.0)
        return replace(found, along=along, dtype=dtype)

    def _rounding(self, name: str, dtype: str, exact: np.ndarray, bound: RoundingBound) -> np.ndarray:
        """Return what rounding explains beside that of the results themselves, in a shape that broadcasts."""
        derived = np.zeros_like(exact)
        if bound.own is not None:
            own = bound.own.numpy()
            own = own if own.shape == exact.shape else own[..., None]  # of complex numbers, for both their parts
            derived = np.where(np.isfinite(own), own, 0.0)  # 0 x inf, where a finite result is exact: exp(-inf)
            if not self.along(name):
                return derived
        if bound.last is not None:
            derived = derived + THROUGH * by_channel(apart(parts(bound.last.numpy()), exact))
        single = self._computed(name, self._inputs, self._captured, double=False)
        inputs, near = (nudged(some, epsilon(dtype) / 2) for some in (self._inputs, self._near(name)))
        return np.maximum(derived, measured(exact, single, self._computed(name, inputs, near)))

    def _captured_coarsely(self, name: str, exact: np.ndarray) -> np.ndarray | float:
        """Return what rounding of inputs explains that were captured in fewer bits than the result.

        A runtime may have passed them on without rounding: ONNX Runtime drops a cast to float16 and back.
        """
        size, near = parts(self._captured[name]).dtype.itemsize, self._near(name)
        coarse = [one for one, value in near.items() if value.dtype.kind == "f" and value.itemsize < size]

        def compute(moved: list[np.ndarray]) -> np.ndarray:
            return self._computed(name, self._inputs, near | dict(zip(coarse, moved, strict=True)))

        return kept_wide(compute, [near[one] for one in coarse], exact) if coarse else 0.0

    def _overflowed(self, name: str) -> bool:
        """Return whether an input was captured as infinite, and is finite but for the range of float16 up to there."""
        half = ((one, np.isinf(value)) for one, value in self._near(name).items() if value.dtype == np.float16)
        infinite = {one: where for one, where in half if where.any()}
        right = ((one, self._computed(one, self._inputs, self._captured)) for one in infinite)
        return any((infinite[one] & np.isfinite(value)).any() or self._overflowed(one) for one, value in right)

    @np.errstate(over="ignore")
    def _of_rounded(self, name: str) -> list[np.ndarray]:
        """Return what it gives of the inputs in float16, if the run holds so what the program has in float32."""
        held = [self._captured[one].dtype for one in self._captured if self.operators[one].dtype == "float32"]
        half = {key: one.astype("f2") for key, one in self._inputs.items() if one.dtype == "f4"} if "f2" in held else {}
        return [self._computed(name, {**self._inputs, **half}, self._captured)] if half else []

    def right(self, name: str) -> np.ndarray:
        """Return what the operator should have given on its inputs, floats in float64.

        What is beyond the range of the dtype in which the backend gave it is infinite.
        """
        return in_range(self._computed(name, self._inputs, self._captured), parts(self._captured[name]).dtype)

    def along(self, name: str) -> tuple[str, ...]:
        """Return the operators between this one and what was captured before it, the nearest first."""
        found = uncaptured(self.operators[name], self._captured, self.operators)
        return tuple(one for one in found if one in self.operators)

    def upstream(self, name: str) -> tuple[str, ...]:
        """Return what the operator was computed from: what was captured of it, inputs of the program, and constants."""
        read = [one for each in (name, *self.along(name)) for one in self.operators[each].inputs]
        return tuple(dict.fromkeys(one for one in read if one in self._captured or one.startswith((INPUT, CONSTANT))))

    def _near(self, name: str) -> dict[str, np.ndarray]:
        return {one: self._captured[one] for one in self.upstream(name) if one in self._captured}

    def _computed(self, name: str, inputs: Given, captured: Given, double: bool = True) -> np.ndarray:
        return parts(array_of(self._meaning.recompute(name, inputs, captured, double)))


def uncaptured(operator: Operator, captured: Collection[str], operators: Mapping[str, Operator]) -> tuple[str, ...]:
    """Return the operators that were not captured between this one and what was captured before it, nearest first."""
    found: dict[str, None] = {}
    pending = list(operator.inputs)
    while pending:
        name = pending.pop(0)
        if name not in captured and name not in found and not name.startswith((INPUT, CONSTANT)):
            found[name] = None
            pending += operators[name].inputs if name in operators else ()
    return tuple(found)


def _form(given: np.ndarray, exact: np.ndarray, operator: Operator) -> str:
    """Return in what shape or kind of number the result differs from what it should be; empty if in neither."""
    if given.shape != exact.shape:
        return f"shape {given.shape} in place of {exact.shape}"
    kinds = [one.dtype.kind.replace("u", "i") for one in (given, exact)]  # of integers, whatever their sign
    return "" if kinds[0] == kinds[1] else f"{given.dtype} in place of {operator.dtype}"


def _misformed(operator: Operator, given: np.ndarray, exact: np.ndarray, form: str) -> LocalError:
    """Return the error of a result of another shape or kind of number: wrong, whatever its values are."""
    if given.shape != exact.shape:
        nan, every = float("nan"), np.ones(exact.shape, bool)
        return LocalError(operator, nan, peak_of(exact), np.inf, every, given, exact, (), 0.0, str(given.dtype), form)
    found = judged(operator, given, exact, 0.0)
    return replace(found, ratio=np.inf, wrong=np.logical_or(found.wrong, not found.wrong.any()), form=form)


def explained_errors(trace: Trace) -> tuple[LocalError, ...]:
    """Return every captured operator with all that rounding explains of it as its bound: see `Judge.error`."""
    judge = Judge(trace.meaning, trace)
    return tuple(judge.error(tap.name, fully=True).without_tensors() for tap in trace.taps)


def parts(values: np.ndarray) -> np.ndarray:
    """Return the values; complex ones with real and imaginary part along a further, last axis."""
    return np.stack([values.real, values.imag], axis=-1) if np.iscomplexobj(values) else values


def judged(
    operator: Operator,
    given: np.ndarray,
    right: np.ndarray,
    floor: Any,
    rounding: Callable[[], tuple[Any, Any]] | None = None,
    enough: float = 1.0,
) -> LocalError:
    """Return how far one result is from what is right, in multiples of the rounding-error bound.

    Parameters
    ----------
    operator : Operator
        What gave it.
    given, right : numpy.ndarray, of the same shape
        `right` in float64, or integers; what is beyond the range of a float dtype counts as infinite.
    floor : numpy.ndarray or float
        How far each element may be off at least.
    rounding : callable, optional
        Returns what rounding explains in full, and shares of what it explains that were found otherwise; it is asked
        for where an error is more than `enough` of the floor.
    enough : float
        As a multiple of the floor.
    """
    exact = in_range(right, given.dtype)
    difference = apart(exact, given)
    allowed, shares = floor, _shares(difference, floor)
    if rounding is not None and (shares > enough).any():
        allowed, more = rounding()
        shares = np.maximum(_shares(difference, allowed), more)
    same = alike(given, exact)
    ratios = shares if same.all() else np.where(same, shares, np.inf)
    ratio, error = (float(one.max(initial=0.0)) for one in (ratios, difference))
    wrong, bound = ~(ratios <= 1), float(np.max(allowed, initial=0.0))
    return LocalError(operator, error, peak_of(exact), ratio, wrong, given, exact, (), bound, str(given.dtype))


def in_range(right: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return what is right in float64, infinite where it is beyond the range of a float dtype; integers as they are."""
    if not is_float(dtype) or (dtype.kind == "f" and largest(right) <= float(np.finfo(dtype).max)):
        return right
    with np.errstate(over="ignore"):
        cast = right.astype(dtype).astype(np.float64)
    return np.where(np.isfinite(cast), right, cast)


def alike(given: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return where both are finite, both NaN, or both the same infinity."""
    if np.isfinite(largest(given)) and np.isfinite(largest(right)):
        return np.ones((), bool)
    wide = np.asarray(given, np.float64)
    both = (np.logical_and(kind(wide), kind(right)) for kind in (np.isfinite, np.isnan))
    return np.logical_or.reduce([*both, wide == right])


def _shares(difference: np.ndarray, allowed: np.ndarray | float) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = difference / allowed
        return shares if np.all(np.greater(allowed, 0)) else np.where(difference, shares, 0.0)


def _step_shares(error: np.ndarray, allowed: np.ndarray, axis: int) -> np.ndarray:
    """Return how far the error moves to each element, of what is allowed.

    Where it does not grow, the one before was wrong.
    """
    error = np.where(np.isfinite(error), error, 0.0)
    before = np.roll(error, 1, axis)
    before[(slice(None),) * (axis % error.ndim) + (slice(0, 1),)] = 0.0
    return np.where(np.abs(error) > np.abs(before), _shares(np.abs(error - before), allowed), 0.0)


def wrong_beyond(operator: Operator, given: np.ndarray, right: np.ndarray, share: float) -> LocalError:
    """Return the error of an operator without a rounding-error bound: wrong is what is off by more of the peak."""
    return judged(operator, given.astype(np.float64), right.astype(np.float64), share * peak_of(right))


def peak_of(right: np.ndarray) -> float:
    """Return the largest finite absolute value."""
    peak = largest(right)
    return peak if np.isfinite(peak) else largest(right[np.isfinite(right)])
