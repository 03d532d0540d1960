"""The decoder from `har` with channels that hardly vary, exported with and without the norm written out."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kokoro.model import KModel

from kokoro_nb.backends.base import Failure
from kokoro_nb.backends.exported import Exported, export_program
from kokoro_nb.errors import InputError
from kokoro_nb.faults import nearly_constant
from kokoro_nb.models import stages
from kokoro_nb.models.case import Case
from kokoro_nb.models.patches import EXPORT_PATCHES, patched

PATCH = "two_pass_norm"
LOWEST, HIGHEST = 15.0, 40.0  # mean of the first and of the last of the channels


@dataclass(frozen=True)
class ConstantChannels:
    """Both programs, and their inputs: name -> tensor."""

    without: Exported
    within: Exported
    inputs: Mapping[str, Any]


def constant_channels(model: KModel, case: Case, frames: int, channels: int) -> ConstantChannels:
    """Export the decoder from `har` with all patches but `PATCH`, and with all of them.

    Parameters
    ----------
    model : kokoro.model.KModel
        Without patches; left as it is.
    case : Case
        The utterance.
    frames : int
        How much of it.
    channels : int
        How many channels of ``noise_convs[0]`` hardly vary beside a large mean.

    Raises
    ------
    InputError
        If the decoder cannot be exported.
    """
    decoder = model.decoder
    inputs: dict[str, Any] = {}
    programs: list[Exported] = []
    for patches in ([name for name in EXPORT_PATCHES if name != PATCH], EXPORT_PATCHES):
        provoked = nearly_constant(decoder.generator.noise_convs[0], channels, lowest=LOWEST, highest=HIGHEST)
        with patched(model, patches), provoked:
            inputs = inputs or stages.from_har_inputs(decoder, case.decoder_inputs(frames))
            program = export_program(stages.FromHarStage(decoder), inputs)
        if isinstance(program, Failure):
            raise InputError(f"The decoder cannot be exported: {program}")
        programs.append(program)
    without, within = programs
    return ConstantChannels(without, within, inputs)
