"""Kokoro's decoder as the studies look into it: a program, patched and exported, with its inputs in one utterance."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

import torch
from kokoro.model import KModel

from kokoro_nb.backends.base import Failure
from kokoro_nb.backends.exported import Exported, export_program
from kokoro_nb.errors import InputError
from kokoro_nb.faults import Fault, generate, plant
from kokoro_nb.listening.spectrum import SpectralAgreement, spectral_agreement
from kokoro_nb.locate.investigation import reference_trace
from kokoro_nb.locate.survey import SurveyRow
from kokoro_nb.models import stages
from kokoro_nb.models.case import Case
from kokoro_nb.models.patches import EXPORT_PATCHES, chosen_patches, patched
from kokoro_nb.traces.trace import Trace

WHOLE, FROM_HAR, EXCITATION = "whole", "from har", "excitation"
LOWEST, HIGHEST = 15.0, 40.0  # mean of nearly constant channels: rounding of its square exceeds the norm's epsilon
SCALE = 1e-5  # of their weights: what is left of a variance computed as E[x²] - E[x]² has no correct digit


@dataclass(frozen=True, eq=False)
class DecoderProgram:
    """An exported program, and its inputs in the utterance: name -> tensor."""

    program: Exported
    inputs: Mapping[str, Any]

    @cached_property
    def reference(self) -> Trace:
        """What every operator gives in eager PyTorch in float32."""
        return reference_trace(self.program, self.inputs)

    def planted(self, faults: Sequence[str]) -> Exported:
        """Return the program with every one of `faults` in it."""
        return reduce(plant, faults, self.program)

    def faults(self, number: int, seed: int, kinds: Sequence[str] | None = None) -> list[Fault]:
        """Draw faults to be planted in it: see `kokoro_nb.faults.generate`."""
        return generate(self.program.specification, number, seed, *([] if kinds is None else [kinds]))


def decoder_part(
    model: KModel, case: Case, frames: int | None = None, part: str = FROM_HAR
) -> tuple[Any, Mapping[str, Any]]:
    """Return the decoder, or a part of it, as a module, and its inputs in the utterance by name.

    Parameters
    ----------
    model : kokoro.model.KModel
        Patched as it is to be exported.
    case : Case
        The utterance.
    frames : int, optional
        How much of it, 40 to the second; all by default.
    part : str
        ``whole``; ``from har``, about which every runtime agrees to float32 rounding; ``excitation``, the harmonic
        source before its transform; or a key of `kokoro_nb.models.stages.parts`.

    Raises
    ------
    InputError
        If there is no such part.
    """
    decoder, inputs = model.decoder, case.decoder_inputs(frames)
    if part == WHOLE:
        return stages.DecoderStage(decoder), inputs
    if part == FROM_HAR:
        return stages.FromHarStage(decoder), stages.from_har_inputs(decoder, inputs)
    if part == EXCITATION:
        return stages.ExcitationStep(decoder.generator), {name: inputs[name] for name in ("f0", "harmonic_noise")}
    parts = stages.parts(decoder, inputs)
    if part not in parts:
        raise InputError(f"The decoder has no part '{part}'; use one of {WHOLE}, {FROM_HAR}, {', '.join(parts)}.")
    return parts[part]


def decoder_program(
    model: KModel, case: Case, frames: int, part: str = FROM_HAR, patches: str | Sequence[str] | None = EXPORT_PATCHES
) -> DecoderProgram:
    """Export a part of the decoder: see `decoder_part`.

    Parameters
    ----------
    patches : str or sequence of str
        What is on while it is exported: see `kokoro_nb.models.patches.chosen_patches`.

    Raises
    ------
    InputError
        If there is no such part or patch, or it cannot be exported.
    """
    with patched(model, chosen_patches(patches)):
        module, given = decoder_part(model, case, frames, part)
        program = export_program(module, given)
    if isinstance(program, Failure):
        raise InputError(f"The decoder ({part}) cannot be exported: {program}")
    return DecoderProgram(program, given)


def spectra(rows: Sequence[SurveyRow]) -> dict[str, SpectralAgreement]:
    """Return how far the spectrum of the first output, audio, is from eager float64's, by backend.

    Parameters
    ----------
    rows : sequence of SurveyRow
        Those of ``eager`` and ``eager-float64`` among them, by which the limit is made.
    """
    taken = {row.backend: row.climb.outputs for row in rows if row.climb and row.climb.outputs}
    audio = {name: next(iter(outputs.values())) for name, outputs in taken.items()}
    exact, single = audio.pop("eager-float64"), audio.pop("eager")
    return {name: spectral_agreement(exact, single, found) for name, found in audio.items()}


def with_constant_channels(model: KModel, channels: int) -> KModel:
    """Return a copy of the model, `channels` channels of whose `noise_convs[0]` vary next to nothing.

    Parameters
    ----------
    model : kokoro.model.KModel
        Without patches.
    channels : int
        How many; their means are spread evenly from 15 to 40.

    Raises
    ------
    InputError
        If the convolution has fewer channels.
    """
    found = copy.deepcopy(model)
    weight, bias = (getattr(found.decoder.generator.noise_convs[0], name).data for name in ("weight", "bias"))
    if not 1 <= channels <= bias.shape[0]:
        raise InputError(f"The convolution has {bias.shape[0]} channels, not {channels}; give 1 or more of these.")
    weight[:channels] *= SCALE
    bias[:channels] = torch.linspace(LOWEST, HIGHEST, channels)
    return found
