"""Each part of the decoder alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kokoro_nb.locate.survey import SurveyRow, survey
from kokoro_nb.models import stages
from kokoro_nb.models.case import Case
from kokoro_nb.models.kokoro import Kokoro
from kokoro_nb.models.patches import EXPORT_PATCHES, chosen_patches, patched


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
