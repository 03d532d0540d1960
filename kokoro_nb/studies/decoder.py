"""Kokoro's decoder as the studies look into it: a program, patched and exported, with its inputs in one utterance."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from kokoro.model import KModel

from kokoro_nb.backends.base import Failure, quietly
from kokoro_nb.backends.exported import Exported, export_program
from kokoro_nb.backends.specification import Specification
from kokoro_nb.errors import InputError
from kokoro_nb.faults import Fault, generate, plant
from kokoro_nb.locate import reference_trace
from kokoro_nb.models import stages
from kokoro_nb.models.case import Case, capture
from kokoro_nb.models.kokoro import load_model
from kokoro_nb.models.patches import EXPORT_PATCHES, chosen_patches, patched
from kokoro_nb.traces.trace import Trace

TEXT = "Hello world, this is a test."
FROM_HAR = "from har"


@dataclass(frozen=True, eq=False)
class DecoderProgram:
    """An exported program, and its inputs in the utterance: name -> tensor."""

    program: Exported
    inputs: Mapping[str, Any]

    @property
    def specification(self) -> Specification:
        """The program's operators by name."""
        return self.program.specification

    @cached_property
    def reference(self) -> Trace:
        """What every operator gives in eager PyTorch in float32."""
        return reference_trace(self.program, self.inputs)

    def planted(self, faults: Sequence[str]) -> Exported:
        """Return the program with every one of `faults` in it."""
        program = self.program
        for fault in faults:
            program = plant(program, fault)
        return program

    def faults(self, number: int, seed: int, kinds: Sequence[str] | None = None) -> list[Fault]:
        """Draw faults to be planted in it: see `kokoro_nb.faults.generate`."""
        return generate(self.specification, number, seed, *([] if kinds is None else [kinds]))


def decoder_program(
    model: KModel, case: Case, frames: int, part: str = FROM_HAR, patches: str | Sequence[str] | None = EXPORT_PATCHES
) -> DecoderProgram:
    """Export the decoder from `har` on, about which every runtime agrees to float32 rounding, or one part of it.

    Parameters
    ----------
    model : kokoro.model.KModel
        Without patches; left as it is.
    case : Case
        The utterance.
    frames : int
        How much of it, 40 to the second.
    part : str
        `FROM_HAR`, or a key of `kokoro_nb.models.stages.parts`.
    patches : str or sequence of str
        What is on while it is exported: see `kokoro_nb.models.patches.chosen_patches`.

    Raises
    ------
    InputError
        If there is no such part or patch, or it cannot be exported.
    """
    with patched(model, chosen_patches(patches)):
        inputs = case.decoder_inputs(frames)
        module, given = _module(model.decoder, inputs, part)
        program = export_program(module, given)
    if isinstance(program, Failure):
        raise InputError(f"The decoder ({part}) cannot be exported: {program}")
    return DecoderProgram(program, given)


def _module(decoder: Any, inputs: Mapping[str, Any], part: str) -> tuple[Any, Mapping[str, Any]]:
    if part == FROM_HAR:
        return stages.FromHarStage(decoder), stages.from_har_inputs(decoder, inputs)
    parts = stages.parts(decoder, inputs)
    if part not in parts:
        raise InputError(f"The decoder has no part '{part}'; use one of {', '.join(parts)}.")
    return parts[part]


def spoken_decoder(
    weights: str = "narrow", seed: int = 0, text: str = TEXT, frames: int = 24, patches: Sequence[str] = EXPORT_PATCHES
) -> tuple[str, DecoderProgram]:
    """Load weights, speak a text, and return the label of the weights and the decoder from `har` on.

    Parameters
    ----------
    weights, seed
        As for `models.kokoro.load_model`; the seed also draws the source's noise.
    text : str
        What is spoken.
    frames : int
        Length, 40 to the second.
    patches : sequence of str
        What is on while it is exported.

    Raises
    ------
    InputError
        If the weights are unknown, or the decoder cannot be exported.
    """
    with quietly():
        kokoro = load_model(weights, seed)
        case = capture(kokoro, text, seed=seed)
    return kokoro.weights.label, decoder_program(kokoro.model, case, frames, patches=patches)
