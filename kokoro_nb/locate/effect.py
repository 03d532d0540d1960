"""What the error of single operators makes of the output: their errors are put into the right program, or left out.

The program is run in float64. An operator that is wrong gives what is right on what it gets there, and its own error on
top, as it was seen on the runtime; so the whole is what the runtime would give if nothing else were wrong.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from kokoro_nb.locate.culprit import Culprit
from kokoro_nb.locate.local_error import LocalError
from kokoro_nb.locate.output_error import OutputError, worst_output
from kokoro_nb.traces.trace import Meaning

MEASURED = 16  # culprits whose effect is measured, those that are furthest beyond rounding: each takes two runs


class ErrorPropagation:
    """The right program in float64, into which errors of operators can be put.

    Parameters
    ----------
    meaning : Specification
        The program as it should be.
    inputs : mapping
        Array of each input by its name.
    errors : iterable of LocalError
        With their tensors.
    """

    def __init__(self, meaning: Meaning, inputs: Mapping[str, Any], errors: Sequence[LocalError]):
        self._meaning, self._inputs = meaning, inputs
        self._errors = {error.operator.name: error for error in errors if error.given.size}

    @property
    def names(self) -> tuple[str, ...]:
        """The operators whose errors are known."""
        return tuple(self._errors)

    def outputs(self, names: Collection[str]) -> dict[str, np.ndarray]:
        """Return the outputs when exactly the operators `names` have their errors."""

        def change(name: str, result: Any) -> Any:
            return _with_error(result, self._errors[name]) if name in names and name in self._errors else None

        run: Any = self._meaning
        return run.run(self._inputs, change, double=True)

    def error(self, names: Collection[str]) -> OutputError:
        """Return how far the output is off when exactly the operators `names` have their errors."""
        return worst_output(self.right, self.outputs(names))

    @cached_property
    def right(self) -> dict[str, np.ndarray]:
        """The outputs of the program as it should be."""
        return self.outputs(())


def with_effects(culprits: Sequence[Culprit], propagation: ErrorPropagation) -> tuple[Culprit, ...]:
    """Return the culprits with what each does to the output, of the `MEASURED` worst; of others it stays unknown."""
    known = [one for one in culprits if one.tap is not None and one.tap.name in propagation.names]
    chosen = sorted(known, key=lambda one: -np.inf if one.ratio is None else -one.ratio)[:MEASURED]
    if not chosen:
        return tuple(culprits)
    whole = propagation.error(propagation.names)
    found = {}
    for one in chosen:
        assert one.tap is not None
        name = one.tap.name
        alone = propagation.error((name,)) if len(propagation.names) > 1 else whole
        rest = propagation.error([other for other in propagation.names if other != name])
        found[name] = replace(one, effect=share_gone(whole, rest), alone=alone.of_peak)
    return tuple(found.get(one.tap.name, one) if one.tap is not None else one for one in culprits)


def share_gone(before: OutputError, after: OutputError) -> float:
    """Return the share of an error that is gone; of an output that is not finite, of its non-finite elements."""
    if before.finite < 1:
        return (after.finite - before.finite) / (1 - before.finite)
    if after.finite < 1:
        return float("nan")
    return 1 - after.of_peak / before.of_peak if before.of_peak else 0.0


def _with_error(result: Any, error: LocalError) -> Any:
    """Return what is right here with the operator's own error on top; NaN and infinities where it gave them."""
    import torch

    given, right = torch.from_numpy(np.array(error.given)), torch.from_numpy(np.array(error.right))
    if not result.is_floating_point() and not result.is_complex():
        return torch.where(torch.from_numpy(error.wrong), given.to(result.dtype), result)
    parts = torch.view_as_real(result) if result.is_complex() else result
    given, right = given.to(parts.dtype), right.to(parts.dtype)
    known = torch.isfinite(given) & torch.isfinite(right)
    changed = torch.where(known, parts + (given - right), torch.where(given == right, parts, given))
    return torch.view_as_complex(changed.contiguous()) if result.is_complex() else changed
