"""15 asks, of audio that is nothing but NaN, which operator, which channels, why, and which patch makes it right."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kokoro.model import KModel

from kokoro_nb.backends.exported import Exported
from kokoro_nb.faults import nearly_constant
from kokoro_nb.models.architecture import SAMPLE_RATE
from kokoro_nb.models.case import Case
from kokoro_nb.models.patches import EXPORT_PATCHES
from kokoro_nb.studies.decoder import decoder_program

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
    sets = (tuple(name for name in EXPORT_PATCHES if name != PATCH), EXPORT_PATCHES)
    sick = with_constant_channels(model, channels)
    without, within = (decoder_program(sick, case, frames, patches=patches) for patches in sets)
    return ConstantChannels(without.program, within.program, without.inputs)


def with_constant_channels(model: KModel, channels: int) -> KModel:
    """Return a copy of `model` in which so many channels of ``noise_convs[0]`` hardly vary beside a large mean."""
    with nearly_constant(model.decoder.generator.noise_convs[0], channels, lowest=LOWEST, highest=HIGHEST):
        return copy.deepcopy(model)
