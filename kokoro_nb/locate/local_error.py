"""What an operator did wrong itself, apart from what went wrong before it.

The operator is computed in float64 on the very values that went into it. What the backend gave differs from that by its
own error, whatever its inputs were. Rounding is allowed for by a bound derived for its family of operators (see
`rounding_families`); of others, by what rounding does to them on these inputs: the same in float32, and again in
float64 with the last bits of the inputs changed.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kokoro_nb.backends.signature import BFLOAT16, epsilon
from kokoro_nb.errors import InputError
from kokoro_nb.locate.rounding_bound import RoundingBound
from kokoro_nb.locate.rounding_families import by_channel
from kokoro_nb.traces.operators import CONSTANT, INPUT, VIEWS, Operator
from kokoro_nb.traces.parity import of_peak
from kokoro_nb.traces.trace import Meaning, Trace

ROUNDINGS = 16  # how many times the measured effect of rounding is allowed: one draw of it may be a small one
THROUGH = 1.01  # how many times what bounded rounding before it does to a result: a bound is nine deviations already
COARSELY = 2  # times what the largest rounding of inputs does to a channel, each to one side or the other by lot
UNITS = 4  # and how many units in the last place of the channel's peak
SILENT = 0.01  # of the tensor's peak: a channel below it is measured by that


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
        How many times what rounding explains: above 1 the operator is wrong. Judged by channel (axis 1 of two axes or
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
        if self.given.shape != self.right.shape:
            return float("nan")
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
        self._meaning, self._inputs, self._captured = meaning, candidate.inputs, candidate.values

    def error(self, name: str) -> LocalError:
        """Return the local error of the captured operator `name`."""
        given, along = parts(self._captured[name]), self.along(name)
        about = (self.operators[name],)
        exact = self.right(name)
        elsewhere = exact.shape != about[0].shape  # at another length than the example's
        if given.shape != exact.shape and given.size == exact.size and (elsewhere or about[0].kind in VIEWS):
            given = given.reshape(exact.shape)  # a runtime shows a view as the memory that it is of
        form = _form(given, exact, about[0])
        if form:
            return _misformed(about[0], given, exact, along, form)
        if not np.issubdtype(given.dtype, np.floating):
            # 0.1 in float32 is not above 0.1 in float32: what the program itself says counts as right, too
            single = self._computed(name, self._inputs, self._captured, double=False)
            wrong = np.logical_and(given != exact, given != single)
            count = float(wrong.sum())
            ratio = np.inf if count else 0.0
            return LocalError(*about, count, peak_of(exact), ratio, wrong, given, exact, along, 0.0, str(given.dtype))
        misfit = ~_alike(given, exact)
        difference = _apart(given, exact)
        dtype = self.dtype(name)
        allowed = _units(exact, dtype)
        shares = _shares(difference, allowed)
        if (shares > 1).any():
            bound = self._bound(name, dtype)
            allowed = self._allowed(name, dtype, exact, bound)
            shares = _shares(difference, allowed)
            if bound.steps is not None and not along:
                steps = bound.steps.numpy() + 2 * _units(exact, dtype)
                shares = np.maximum(shares, _step_shares(given - exact, steps, bound.axis))
        ratio = np.inf if misfit.any() else float(shares.max(initial=0.0))
        largest = float(np.max(allowed, initial=0.0))
        error = float(difference.max(initial=0.0))
        wrong = np.logical_or(misfit, shares > 1)
        return LocalError(*about, error, peak_of(exact), ratio, wrong, given, exact, along, largest, dtype)

    def dtype(self, name: str) -> str:
        """Return the dtype in which the backend gave a result; of bfloat16 itself, whose numbers float32 holds."""
        held = str(parts(self._captured[name]).dtype)
        return BFLOAT16 if (self.operators[name].dtype, held) == (BFLOAT16, "float32") else held

    def explained(self, name: str) -> float:
        """Return the largest error that rounding explains of the captured operator `name`, however near it came.

        The bound in `error` is no wider than it takes to judge what was given.
        """
        dtype, exact = self.dtype(name), self.right(name)
        if not np.issubdtype(parts(self._captured[name]).dtype, np.floating):
            return 0.0
        return float(np.max(self._allowed(name, dtype, exact, self._bound(name, dtype)), initial=0.0))

    def _allowed(self, name: str, dtype: str, exact: np.ndarray, bound: RoundingBound) -> np.ndarray:
        """Return what rounding explains of each element, in a shape that broadcasts."""
        return _units(exact, dtype) + self._rounding(name, dtype, exact, bound) + self._captured_coarsely(name, exact)

    def _bound(self, name: str, dtype: str) -> RoundingBound:
        bound = RoundingBound(dtype)
        self._meaning.recompute(name, self._inputs, self._captured, substitute=bound)
        return bound

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
            derived = derived + THROUGH * by_channel(_apart(parts(bound.last.numpy()), exact))
        single = self._computed(name, self._inputs, self._captured, double=False)
        nudged = self._computed(name, _nudged(self._inputs, dtype), _nudged(self._near(name), dtype))
        measured = np.maximum(by_channel(_apart(single, exact)), by_channel(_apart(nudged, exact)))
        return np.maximum(derived, ROUNDINGS * measured)

    def _captured_coarsely(self, name: str, exact: np.ndarray) -> np.ndarray | float:
        """Return what rounding of inputs explains that were captured in fewer bits than the result.

        A runtime may have passed them on without rounding: ONNX Runtime drops a cast to float16 and back.
        """
        dtype, near = parts(self._captured[name]).dtype, self._near(name)
        floats = {one: value for one, value in near.items() if np.issubdtype(value.dtype, np.floating)}
        coarse = {one: value for one, value in floats.items() if value.itemsize < dtype.itemsize}
        if not coarse:
            return 0.0
        moved = near | _nudged(coarse, str(next(iter(coarse.values())).dtype), np.sign)
        return COARSELY * by_channel(_apart(self._computed(name, self._inputs, moved), exact))

    def right(self, name: str) -> np.ndarray:
        """Return what the operator should have given on what went into it, floats in float64.

        What is beyond the range of the dtype in which the backend gave it is infinite.
        """
        exact = self._computed(name, self._inputs, self._captured)
        dtype = parts(self._captured[name]).dtype
        if not np.issubdtype(dtype, np.floating):
            return exact
        with np.errstate(over="ignore"):
            return np.where(np.isfinite(exact.astype(dtype)), exact, exact.astype(dtype).astype(np.float64))

    def along(self, name: str) -> tuple[str, ...]:
        """Return the operators between this one and what was captured before it, the nearest first."""
        found = uncaptured(self.operators[name], self._captured, self.operators)
        return tuple(one for one in found if one in self.operators)

    def upstream(self, name: str) -> tuple[str, ...]:
        """Return what the operator was computed from, as far as that was captured, and the inputs of the program."""
        read = [one for each in (name, *self.along(name)) for one in self.operators[each].inputs]
        return tuple(dict.fromkeys(one for one in read if one in self._captured or one.startswith(INPUT)))

    def constants(self, name: str) -> tuple[str, ...]:
        """Return the parameters, buffers and constants that went into it."""
        read = [one for each in (name, *self.along(name)) for one in self.operators[each].inputs]
        return tuple(dict.fromkeys(one.removeprefix(CONSTANT) for one in read if one.startswith(CONSTANT)))

    def value(self, name: str) -> np.ndarray:
        """Return what was captured under a name, or given as the input of that name."""
        return np.asarray(self._inputs[name.removeprefix(INPUT)] if name.startswith(INPUT) else self._captured[name])

    def _near(self, name: str) -> dict[str, np.ndarray]:
        return {one: self._captured[one] for one in self.upstream(name) if one in self._captured}

    def _computed(
        self, name: str, inputs: Mapping[str, Any], captured: Mapping[str, np.ndarray], double: bool = True
    ) -> np.ndarray:
        return parts(self._meaning.recompute(name, inputs, captured, double).numpy())


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
    numbers = {"i": "integer", "u": "integer"}
    kinds = [numbers.get(one.dtype.kind, one.dtype.kind) for one in (given, exact)]
    return "" if kinds[0] == kinds[1] else f"{given.dtype} in place of {operator.dtype}"


def _misformed(
    operator: Operator, given: np.ndarray, exact: np.ndarray, along: tuple[str, ...], form: str
) -> LocalError:
    """Return the error of a result of another shape or kind of number: wrong, whatever its values are."""
    error, wrong = float("nan"), np.ones(exact.shape, bool)
    if given.shape == exact.shape:
        difference = _apart(given, exact)
        error, differs = float(difference.max(initial=0.0)), difference > 0
        wrong = differs if differs.any() else wrong
    return LocalError(operator, error, peak_of(exact), np.inf, wrong, given, exact, along, 0.0, str(given.dtype), form)


def explained_errors(trace: Trace) -> tuple[LocalError, ...]:
    """Return every captured operator with all that rounding explains of it as its bound: see `Judge.explained`."""
    assert trace.meaning is not None  # of eager, which knows what it computes
    judge = Judge(trace.meaning, trace)
    names = [tap.name for tap in trace.taps]
    return tuple(replace(judge.error(one).without_tensors(), bound=judge.explained(one)) for one in names)


def parts(values: np.ndarray) -> np.ndarray:
    """Return the values; complex ones with real and imaginary part along a further, last axis."""
    return np.stack([values.real, values.imag], axis=-1) if np.iscomplexobj(values) else values


def _nudged(
    values: Mapping[str, np.ndarray], dtype: str, share: Callable[[np.ndarray], np.ndarray] = np.positive
) -> dict[str, np.ndarray]:
    """Return the values in float64, each moved at random by up to half a unit in the last place of `dtype`.

    With `numpy.sign` as `share` by all of it: a draw in which what matters most hardly moves is no bound.
    """
    generator = np.random.default_rng(0)
    half = epsilon(dtype) / 2
    return {
        name: np.asarray(value, np.float64) * (1 + half * share(generator.uniform(-1, 1, np.shape(value))))
        if np.issubdtype(np.asarray(value).dtype, np.floating)
        else value
        for name, value in values.items()
    }


def _alike(given: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return where both are finite, both NaN, or both the same infinity."""
    both = (np.logical_and(kind(given), kind(right)) for kind in (np.isfinite, np.isnan))
    return np.logical_or.reduce([*both, given == right])


def _apart(given: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return the absolute difference where both are finite, 0 elsewhere: what is not finite is judged by its kind."""
    with np.errstate(invalid="ignore"):
        difference = np.abs(given.astype(np.float64) - right)
    return np.where(np.isfinite(difference), difference, 0.0)


def _units(right: np.ndarray, dtype: str) -> np.ndarray:
    """Return the rounding of the results themselves, by channel."""
    size = np.where(np.isfinite(right), np.abs(right), 0.0)
    channels = by_channel(size)
    return UNITS * epsilon(dtype) * np.maximum(channels, SILENT * float(size.max(initial=0.0)))


def _shares(difference: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(difference, difference / allowed, 0.0)


def _step_shares(error: np.ndarray, allowed: np.ndarray, axis: int) -> np.ndarray:
    """Return how far the error moves to each element, of what is allowed.

    Where it does not grow, the one before was wrong.
    """
    error = np.where(np.isfinite(error), error, 0.0)
    before = np.roll(error, 1, axis)
    before[(slice(None),) * (axis % error.ndim) + (slice(0, 1),)] = 0.0
    return np.where(np.abs(error) > np.abs(before), _shares(np.abs(error - before), allowed), 0.0)


def peak_of(right: np.ndarray) -> float:
    """Return the largest finite absolute value."""
    size = np.abs(right[np.isfinite(right)].astype(np.float64))
    return float(size.max(initial=0.0))
