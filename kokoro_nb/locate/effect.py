"""What the error of single operators makes of the output: their errors are put into the right program, or left out.

The program is run in float64. An operator that is wrong gives what is right on what it gets there, and its own error on
top, as it was seen on the runtime. With the errors of all operators in it, it gives what the runtime gave.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from kokoro_nb.locate.culprit import Culprit
from kokoro_nb.locate.local_error import LocalError, parts
from kokoro_nb.locate.output_error import OutputError, OutputLimit, worst_output
from kokoro_nb.traces.trace import Trace

MEASURED = 16  # culprits whose effect is measured, those that are furthest beyond rounding: each takes two runs


@dataclass(frozen=True, eq=False)
class Deviation:
    """What an operator gave on the runtime, and what is right on the same inputs in float64; arrays of one shape.

    Of complex numbers, the parts along a last axis. What is right is not cut to the range of the runtime's dtype.
    """

    given: np.ndarray
    right: np.ndarray


def deviations(meaning: Any, trace: Trace, names: Collection[str] | None = None) -> dict[str, Deviation]:
    """Return the deviation of every captured operator that has one; or of `names` alone.

    Parameters
    ----------
    meaning : Specification
        What the operators should compute.
    trace : Trace
        Of the runtime, with whole tensors.
    """
    values, found = trace.values, {}
    shapes = {operator.name: operator.shape for operator in meaning.operators}
    for name, value in values.items():
        if (names is None or name in names) and value.shape == shapes[name]:
            right = parts(meaning.recompute(name, trace.inputs, values).numpy())
            given = parts(value)
            if given.shape != right.shape:
                continue  # what is computed of a result of another shape is another matter
            if not np.array_equal(given, right, equal_nan=given.dtype.kind == "f"):
                found[name] = Deviation(given, right)
    return found


def seen_deviations(errors: Iterable[LocalError]) -> dict[str, Deviation]:
    """Return the deviations of those local errors that still have their tensors."""
    return {
        error.operator.name: Deviation(error.given, error.right)
        for error in errors
        if error.given.size and error.given.shape == error.right.shape
    }


class ErrorPropagation:
    """The right program in float64, into which errors of operators can be put.

    Parameters
    ----------
    meaning : Specification
        The program as it should be.
    inputs : mapping
        Array of each input by its name.
    errors : mapping
        Deviation of operators by their names.
    limits : mapping, optional
        Limit of each output.
    """

    def __init__(
        self,
        meaning: Any,
        inputs: Mapping[str, Any],
        errors: Mapping[str, Deviation],
        limits: Mapping[str, OutputLimit] | None = None,
    ):
        self._meaning, self._inputs, self._errors, self._limits = meaning, inputs, errors, limits
        self._known: dict[frozenset[str], OutputError] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The operators whose errors are known, in the order of execution."""
        return tuple(self._errors)

    @property
    def runs(self) -> int:
        """How many sets of operators were tried so far."""
        return len(self._known)

    def outputs(self, names: Collection[str]) -> dict[str, np.ndarray]:
        """Return the outputs when exactly the operators `names` have their errors."""

        def change(name: str, result: Any) -> Any:
            return _with_error(result, self._errors[name]) if name in names and name in self._errors else None

        return self._meaning.run(self._inputs, change, double=True)

    def error(self, names: Collection[str]) -> OutputError:
        """Return how far the output is off when exactly the operators `names` have their errors."""
        key = frozenset(names)
        if key not in self._known:
            self._known[key] = worst_output(self.right, self.outputs(key), self._limits)
        return self._known[key]

    def error_without(self, names: Collection[str]) -> OutputError:
        """Return how far the output is off when all but the operators `names` have their errors."""
        return self.error([name for name in self.names if name not in names])

    @cached_property
    def right(self) -> dict[str, np.ndarray]:
        """The outputs of the program as it should be."""
        return self.outputs(())


def with_effects(culprits: Sequence[Culprit], propagation: ErrorPropagation) -> tuple[Culprit, ...]:
    """Return the culprits with what each does to the output, of the `MEASURED` worst; of others it stays unknown."""
    known = [one for one in culprits if one.captured in propagation.names]
    chosen = sorted(known, key=lambda one: -np.inf if one.ratio is None else -one.ratio)[:MEASURED]
    if not chosen:
        return tuple(culprits)
    whole = propagation.error(propagation.names)
    found = {}
    for one in chosen:
        alone, rest = propagation.error((one.captured,)), propagation.error_without((one.captured,))
        found[one.captured] = replace(one, effect=share_gone(whole, rest), alone=alone.of_peak)
    return tuple(found.get(one.captured, one) for one in culprits)


def share_gone(before: OutputError, after: OutputError) -> float:
    """Return the share of an error that is gone; of an output that is not finite, of its non-finite elements."""
    if before.finite < 1:
        return (after.finite - before.finite) / (1 - before.finite)
    if after.finite < 1:
        return float("nan")
    return 1 - after.of_peak / before.of_peak if before.of_peak else 0.0


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
