"""03: whether every operator of the exported decoder is right, and which one is wrong first if not."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kokoro_nb.inspection import diagnose
from kokoro_nb.locate import Diagnosis, Investigation
from kokoro_nb.locate.survey import SurveyRow, survey
from kokoro_nb.models import stages
from kokoro_nb.models.case import Case
from kokoro_nb.models.kokoro import Kokoro
from kokoro_nb.models.patches import EXPORT_PATCHES, chosen_patches, patched
from kokoro_nb.studies.decoder import DecoderProgram, decoder_program
from kokoro_nb.traces.trace import Tap, Trace


@dataclass(frozen=True)
class PartsAlone:
    """Each part of the decoder by its name, alone on each backend, on the inputs that the whole gives it."""

    parts: Mapping[str, tuple[SurveyRow, ...]]


def parts_alone(
    kokoro: Kokoro,
    case: Case,
    frames: int,
    backends: Sequence[str],
    patches: str | Sequence[str] | None = EXPORT_PATCHES,
) -> PartsAlone:
    """Export every part of the decoder by itself to each of `backends`, and compare it with eager PyTorch."""
    with patched(kokoro.model, chosen_patches(patches)):
        parts = stages.parts(kokoro.model.decoder, case.decoder_inputs(frames))
        return PartsAlone({name: survey(module, inputs, backends) for name, (module, inputs) in parts.items()})


def planted_faults(
    healthy: DecoderProgram, faults: Sequence[str], backends: Sequence[str]
) -> dict[tuple[str, str], Diagnosis]:
    """Diagnose the program with each fault on each backend.

    All tensors of a run are kept of the first one alone, which for that is made last: at full size they are 0.7 GB.

    Returns
    -------
    dict
        (fault, backend) -> diagnosis, in this order.
    """
    first, *others = [(fault, name) for fault in faults for name in backends]

    def diagnosed(fault: str, name: str) -> Diagnosis:
        return diagnose(healthy.planted([fault]), healthy.inputs, name, healthy.reference, "tracing")

    found = {each: replace(diagnosed(*each), investigation=None, subject=None) for each in others}
    return {first: diagnosed(*first), **found}


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
