"""What a look at the first and last elements of each tensor would have said: the common probe that misleads."""

from dataclasses import dataclass

import numpy as np

from kokoro_nb.locate import Investigation
from kokoro_nb.traces.trace import Tap, Trace

ELEMENTS = 8  # from either end, as such probes print
TOLERANCE = 1e-4  # of the largest element looked at


@dataclass(frozen=True)
class Slices:
    """The answer of head-and-tail slices.

    Attributes
    ----------
    elements : int
        How many were looked at from either end, in C order.
    name : str or None
        The first operator at which they differ from the reference; None if they never do.
    """

    elements: int
    name: str | None


@dataclass(frozen=True, eq=False)
class SlicesView:
    """One tensor of a run, the answer of head-and-tail slices to all of that run, and the elements looked at."""

    tap: Tap
    slices: Slices


def seen_by_slices(found: Investigation | None, operator: str) -> SlicesView | None:
    """Return what head-and-tail slices say of a run, beside the result of `operator` in it; None if it has none."""
    if found is None or operator not in found.candidate.values:
        return None
    return SlicesView(found.candidate[operator], slices(found.reference, found.candidate))


def slices(reference: Trace, candidate: Trace, elements: int = ELEMENTS) -> Slices:
    """Return the first operator whose head or tail differs from the reference by more than 1e-4 of what is looked at.

    Parameters
    ----------
    reference, candidate : Trace
        With their tensors kept; only operators that both captured are looked at.
    elements : int
        How many from either end.
    """
    known = reference.values
    for tap in candidate.taps:
        if tap.name in known and tap.value is not None and _differ(known[tap.name], tap.value, elements):
            return Slices(elements, tap.name)
    return Slices(elements, None)


def _differ(reference: np.ndarray, candidate: np.ndarray, elements: int) -> bool:
    a, b = (
        np.concatenate([v.reshape(-1)[:elements], v.reshape(-1)[-elements:]]).astype(float)
        for v in (reference, candidate)
    )
    largest = float(np.max(np.abs(a), initial=0.0))
    with np.errstate(invalid="ignore"):
        return not bool((np.abs(a - b) <= TOLERANCE * largest).all())
