"""What the error of single operators makes of the output: their errors are put into the right program, or left out.

The program is run in float64. An operator that is wrong gives what is right on what it gets there, and its own error on
top, as it was seen on the runtime. With the errors of all operators in it, it gives what the runtime gave.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from kokoro_nb.locate.culprit import Culprit, Mechanism, wrong_at
from kokoro_nb.locate.local_error import LocalError, judged, parts, peak_of
from kokoro_nb.locate.mechanism_rules import lowered_as_another
from kokoro_nb.locate.output_error import Limits, OutputError, worst_output
from kokoro_nb.locate.rule_evidence import evidence_of
from kokoro_nb.locate.search import loudest, smallest
from kokoro_nb.traces.statistics import share_of_peak
from kokoro_nb.traces.trace import Operator, Trace, with_readers, with_sources

CLEARLY = 16.0  # times further off than PyTorch: one draw of rounding may be a small one
MEASURED = 16  # culprits whose effect is measured, those that are furthest beyond rounding: each takes two runs


@dataclass(frozen=True, eq=False)
class Deviation:
    """The result of an operator on the runtime, and the right one on the same inputs in float64; arrays of one shape.

    Of complex numbers, the parts along a last axis. The right one is not cut to the range of the runtime's dtype.
    """

    given: np.ndarray
    right: np.ndarray


def deviations(reference: Trace, trace: Trace, names: Collection[str] | None = None) -> dict[str, Deviation]:
    """Return the deviation of every captured operator that has one; or of `names` alone.

    Parameters
    ----------
    reference : Trace
        Of PyTorch on the same inputs, with what the operators should compute.
    trace : Trace
        Of the runtime, with whole tensors.
    """
    values, found = trace.values, {}
    shapes = {tap.name: tap.statistics.shape for tap in reference.taps}  # the program's own are those of the example
    for name, value in values.items():
        if (names is None or name in names) and value.shape == shapes.get(name):
            right, given = parts(reference.meaning.recompute(name, trace.inputs, values).numpy()), parts(value)
            # what is computed of a result of another shape is another matter
            if given.shape == right.shape and not np.array_equal(given, right, equal_nan=given.dtype.kind == "f"):
                found[name] = Deviation(given, right)
    return found


def seen_deviations(errors: Iterable[LocalError]) -> dict[str, Deviation]:
    """Return the deviations of those local errors that still have their tensors."""
    held = (one for one in errors if one.given.size and one.given.shape == one.right.shape)
    return {one.operator.name: Deviation(one.given, one.right) for one in held}


class ErrorPropagation:
    """The right program in float64, into which errors of operators can be put.

    Parameters
    ----------
    reference : Trace
        With its inputs, and the program as it should be.
    errors : mapping
        Deviation of operators by their names.
    limits : mapping, optional
        Limit of each output.

    Attributes
    ----------
    names : tuple of str
        The operators whose errors are known, in the order of execution.
    """

    def __init__(self, reference: Trace, errors: Mapping[str, Deviation], limits: Limits | None = None):
        self.reference, self.errors, self.limits, self.names = reference, errors, limits, tuple(errors)
        self._known: dict[frozenset[str], OutputError] = {}

    @property
    def runs(self) -> int:
        """How many sets of operators were tried so far."""
        return len(self._known)

    def outputs(self, names: Collection[str]) -> dict[str, np.ndarray]:
        """Return the outputs when exactly the operators `names` have their errors."""

        def change(name: str, result: Any) -> Any:
            return _with_error(result, self.errors[name]) if name in names and name in self.errors else None

        return self.reference.meaning.run(self.reference.inputs, change, double=True)

    def error(self, names: Collection[str]) -> OutputError:
        """Return how far the output is off when exactly the operators `names` have their errors."""
        key = frozenset(names)
        if key not in self._known:
            self._known[key] = worst_output(self.right, self.outputs(key), self.limits)
        return self._known[key]

    def error_without(self, names: Collection[str]) -> OutputError:
        """Return how far the output is off when all but the operators `names` have their errors."""
        return self.error([name for name in self.names if name not in names])

    def effect(self, name: str) -> tuple[OutputError, dict[str, Any]]:
        """Return how far the output is off when an operator alone has its error, and its figures in a `Culprit`."""
        alone, whole = self.error((name,)), self.error(self.names)
        return alone, {"effect": share_gone(whole, self.error_without((name,))), "alone": alone.of_peak}

    @cached_property
    def right(self) -> dict[str, np.ndarray]:
        """The outputs of the program as it should be."""
        return self.outputs(())


def with_effects(culprits: Sequence[Culprit], propagation: ErrorPropagation) -> tuple[Culprit, ...]:
    """Return the culprits with what each does to the output, of the `MEASURED` worst; of others it stays unknown."""
    known = [one for one in culprits if one.captured in propagation.names]
    chosen = sorted(known, key=lambda one: -np.inf if one.ratio is None else -one.ratio)[:MEASURED]
    found = {one.captured: replace(one, **propagation.effect(one.captured)[1]) for one in chosen}
    return tuple(found.get(one.captured, one) for one in culprits)


def share_gone(before: OutputError, after: OutputError) -> float:
    """Return the share of an error that is gone; of an output that is not finite, of its non-finite elements."""
    if before.finite < 1:
        return (after.finite - before.finite) / (1 - before.finite)
    if after.finite < 1:
        return float("nan")
    # where only 0 is right an error is infinite, and is gone as a whole or not at all
    return 1 - after.of_peak / before.of_peak if 0 < before.of_peak < np.inf else float(after.of_peak < before.of_peak)


def _with_error(result: Any, error: Deviation) -> Any:
    """Return what is right here with the operator's own error on top; NaN and infinities where it gave them."""
    import torch

    given, right = torch.from_numpy(np.array(error.given)), torch.from_numpy(np.array(error.right))
    if not result.is_floating_point() and not result.is_complex():
        return torch.where(given != right, given.to(result.dtype), result)
    split = torch.view_as_real(result) if result.is_complex() else result
    given, right = given.to(split.dtype), right.to(split.dtype)
    same = (given == right) | (torch.isnan(given) & torch.isnan(right))
    known = torch.isfinite(given) & torch.isfinite(right)
    changed = torch.where(same, split, torch.where(known, split + (given - right), given))
    return torch.view_as_complex(changed.contiguous()) if result.is_complex() else changed


FEW = 32  # operators: a set of more is not made smaller
BUDGET = 160  # runs of the program: after them, what is left undivided is named whole
SUMS, PERIODIC = ("cumsum", "cumprod"), ("sin", "cos", "tan", "remainder", "fmod")


def lossy_operators(propagation: ErrorPropagation) -> tuple[str, ...]:
    """Return a smallest set of operators without whose rounding the output is within its limit; empty if none is.

    Sets grow by what harms the output most; of the first that does, delta debugging makes one of which none can be
    spared. Of each set the errors are carried to the output. Where that takes more than `BUDGET` runs, the set is
    larger than it had to be.

    Parameters
    ----------
    propagation : ErrorPropagation
        With the errors of all captured operators, and the limits of the outputs.
    """
    whole = propagation.error(propagation.names)
    if whole.verdict != "fail" or not whole.limit > 0:
        return ()

    def good(names: Collection[str]) -> bool:
        return propagation.error_without(names).verdict == "pass"

    def level(names: Collection[str]) -> float:
        error = propagation.error(names)
        return -error.of_peak if error.finite == 1 else -np.inf

    some = next((one for one in loudest(propagation.names, level, BUDGET) if good(one)), [])
    chosen = tuple(name for name in propagation.names if name in some)
    return smallest(chosen, good) if 0 < len(chosen) <= FEW and propagation.runs < BUDGET else chosen


def lossy_culprits(
    propagation: ErrorPropagation, candidate: Trace, errors: Sequence[LocalError] = (), what: str = "its rounding"
) -> tuple[Culprit, ...]:
    """Return the operators of `lossy_operators` as culprits, each with its effect and why its dtype does not do.

    `what` is what the deviations are, in words.
    """
    local, meaning = {error.operator.name: error for error in errors}, propagation.reference.meaning
    operators = {operator.name: operator for operator in meaning.operators}
    limit, found = propagation.error(propagation.names).limit, list[Culprit]()
    for name in lossy_operators(propagation):
        dtype = candidate[name].statistics.dtype
        mechanism = _precision_mechanism(propagation.errors[name], operators, name, dtype)
        numbers = [one for one in meaning.numbers(name).values() if isinstance(one, float) and one]
        lost = [f"its number {one:.4g} is 0 in {dtype}" for one in numbers if not np.asarray(one).astype(dtype)]
        evidence, figures = [*lost[:1], *mechanism.evidence], dict[str, Any]()
        if len(found) < MEASURED:
            alone, figures = propagation.effect(name)
            carried = f"{what} alone puts the output off by {share_of_peak(alone.of_peak)}; the limit is {limit:.3g}"
            if alone.finite < 1:
                carried = f"it alone makes {100 * (1 - alone.finite):.3g} % of the output not finite"
            evidence.append(carried)
        mechanism = replace(mechanism, evidence=tuple(evidence))
        if name in local:
            figures |= {"local_error": local[name].of_peak, "ratio": local[name].ratio}
        cause = _as_another(propagation, candidate, operators[name])
        if cause is None and name in local and dtype == operators[name].dtype:
            cause = _less_exact(propagation, candidate, operators[name])
        causes = (mechanism,) if cause is None else (cause, mechanism)
        near = f"right for {dtype}" if cause is None else "within the rounding error of its peak"
        near = near if "float" in dtype else "right on rounded inputs"
        words = f"{near}, which is too little for the output"
        found.append(wrong_at(candidate[name], candidate.backend, causes, channels=words, **figures))
    return tuple(found)


def _as_another(propagation: ErrorPropagation, candidate: Trace, operator: Operator) -> Mechanism | None:
    """Return the mechanism of an operator that gives what another does, near enough that rounding of its inputs may."""
    deviation = propagation.errors[operator.name]
    given, right = (np.asarray(one, np.float64) for one in (deviation.given, deviation.right))
    error = judged(operator, given, right, 0.0)
    return lowered_as_another(evidence_of(error, (), propagation.reference.meaning, candidate))


def _less_exact(propagation: ErrorPropagation, candidate: Trace, operator: Operator) -> Mechanism | None:
    """Return the mechanism of an operator whose result in PyTorch, in the same dtype, the output can bear."""
    reference, name = propagation.reference, operator.name
    given = parts(reference.meaning.recompute(name, candidate.inputs, candidate.values, double=False).numpy())
    own = {name: Deviation(given, propagation.errors[name].right)}
    theirs = ErrorPropagation(reference, own, propagation.limits).error((name,))
    if theirs.verdict != "pass" or CLEARLY * theirs.of_peak > propagation.error((name,)).of_peak:  # which may be NaN
        return None
    words = f"{candidate.backend} computes {operator.kind} less exactly than PyTorch does in {operator.dtype}"
    text = f"PyTorch's own, on the same values, puts the output off by {share_of_peak(theirs.of_peak)}"
    return Mechanism("operator lowered as another", words, (text,))


FLOATS = ("float16", "float32", "float64")


def overflow(deviation: Deviation, dtype: str) -> Mechanism | None:
    """Return that a result is beyond the range of its dtype on the runtime; None if it is not."""
    lost, peak = np.isfinite(deviation.right) & ~np.isfinite(deviation.given), peak_of(deviation.right)
    if dtype not in FLOATS or not lost.any() or peak <= float(np.finfo(dtype).max):
        return None
    text = f"the largest right value is {peak:.4g}, above {float(np.finfo(dtype).max):.6g}"
    return Mechanism("overflow of the dtype", f"the range of {dtype}", (text,))


def _precision_mechanism(deviation: Deviation, operators: dict[str, Operator], name: str, dtype: str) -> Mechanism:
    """Return why the result of an operator loses what the output needs: its range, its bits, or a phase that grows.

    Parameters
    ----------
    deviation : Deviation
        Of the operator.
    operators : dict
        All operators of the program by name.
    name : str
        The operator.
    dtype : str
        Of its result on the runtime.
    """
    if dtype not in FLOATS:
        return Mechanism("too few bits", f"a result of {dtype} that carries rounding on")
    if (beyond := overflow(deviation, dtype)) is not None:
        return beyond
    peak = peak_of(deviation.right)
    step = float(np.spacing(np.asarray(peak, dtype))) if peak <= float(np.finfo(dtype).max) else float("inf")
    text = f"its values reach {peak:.4g}, where numbers of {dtype} are {step:.3g} apart"
    every = tuple(operators.values())
    after = with_readers(every, {name})
    running = any(one.kind in SUMS and one.name in after | with_sources(every, {name}) for one in every)
    if running and any(operators[one].kind in PERIODIC for one in after - {name}):
        words = f"a phase that grows, in {dtype}, before it is taken as an angle"
        return Mechanism("accumulated phase", words, (text,))
    return Mechanism("too few bits", f"{dtype} holds too few bits for the operators that read it", (text,))
