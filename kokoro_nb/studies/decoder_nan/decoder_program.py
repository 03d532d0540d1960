"""The decoder as it is exported here: from `har` on in one program, and each of its parts alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from kokoro_nb.backends.base import Failure
from kokoro_nb.backends.exported import Exported, export_program
from kokoro_nb.errors import InputError
from kokoro_nb.locate import reference_trace
from kokoro_nb.locate.survey import SurveyRow, survey
from kokoro_nb.models import stages
from kokoro_nb.models.case import Case
from kokoro_nb.models.kokoro import Kokoro
from kokoro_nb.models.patches import EXPORT_PATCHES, patched
from kokoro_nb.traces.trace import Trace


@dataclass(frozen=True, eq=False)
class DecoderProgram:
    """The exported decoder from `har` on, its inputs, and what every operator of it gives in eager PyTorch."""

    program: Exported
    inputs: Mapping[str, torch.Tensor]
    reference: Trace


@dataclass(frozen=True)
class PartsAlone:
    """Each part of the decoder by its name, alone on each backend, on the inputs that the whole gives it."""

    parts: Mapping[str, tuple[SurveyRow, ...]]


def decoder_from_har(kokoro: Kokoro, case: Case, frames: int) -> DecoderProgram:
    """Export the first `frames` frames of the decoder from `har` on, with all export patches.

    Raises
    ------
    InputError
        If it cannot be exported.
    """
    decoder = kokoro.model.decoder
    with patched(kokoro.model, EXPORT_PATCHES):
        inputs = stages.from_har_inputs(decoder, case.decoder_inputs(frames))
        program = export_program(stages.FromHarStage(decoder), inputs)
    if isinstance(program, Failure):
        raise InputError(f"The decoder cannot be exported: {program}")
    return DecoderProgram(program, inputs, reference_trace(program, inputs))


def parts_alone(kokoro: Kokoro, case: Case, frames: int, backends: Sequence[str]) -> PartsAlone:
    """Export every part of the decoder by itself to each of `backends`, and compare it with eager PyTorch."""
    with patched(kokoro.model, EXPORT_PATCHES):
        parts = stages.parts(kokoro.model.decoder, case.decoder_inputs(frames))
        return PartsAlone({name: survey(module, inputs, backends) for name, (module, inputs) in parts.items()})
