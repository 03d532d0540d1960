"""What is searched for faults, and what they are planted in: an exported program and inputs for it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kokoro_nb.backends.base import Failure, quietly
from kokoro_nb.backends.exported import Exported, export_program
from kokoro_nb.backends.specification import Specification
from kokoro_nb.errors import InputError
from kokoro_nb.models import stages
from kokoro_nb.models.case import capture
from kokoro_nb.models.kokoro import load_model
from kokoro_nb.models.patches import EXPORT_PATCHES, patched

TEXT = "Hello world, this is a test."


@dataclass(frozen=True)
class Subject:
    """A program that is known to be right.

    Attributes
    ----------
    label : str
        Of the weights.
    exported : Exported
        The program.
    inputs : mapping
        Name -> tensor.
    """

    label: str
    exported: Exported
    inputs: Mapping[str, Any]

    @property
    def specification(self) -> Specification:
        """The program's operators by name."""
        return self.exported.specification


def decoder_from_har(weights: str = "narrow", seed: int = 0, text: str = TEXT, frames: int = 24) -> Subject:
    """Export the decoder from `har`, which every runtime agrees about to float32 rounding, patched for export.

    Parameters
    ----------
    weights, seed
        As for `models.kokoro.load_model`; the seed also draws the source's noise.
    text : str
        What is spoken.
    frames : int
        Length, 40 to the second.

    Raises
    ------
    InputError
        If the weights are unknown, or the decoder cannot be exported.
    """
    with quietly():
        kokoro = load_model(weights, seed)
        inputs = capture(kokoro, text, seed=seed).decoder_inputs(frames)
    with patched(kokoro.model, EXPORT_PATCHES):
        from_har = stages.from_har_inputs(kokoro.model.decoder, inputs)
        exported = export_program(stages.FromHarStage(kokoro.model.decoder), from_har)
    if isinstance(exported, Failure):
        raise InputError(f"The decoder cannot be exported: {exported}")
    return Subject(kokoro.weights.label, exported, from_har)
