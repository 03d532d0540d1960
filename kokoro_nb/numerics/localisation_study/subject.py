"""What faults are planted in: an exported program and the inputs that it is run on."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kokoro_nb.backends.base import Failure
from kokoro_nb.backends.exported import Exported, export_program
from kokoro_nb.backends.specification import Specification
from kokoro_nb.errors import InputError

TEXT = "Hello world, this is a test."


@dataclass(frozen=True)
class Subject:
    """A healthy program and inputs for it."""

    exported: Exported
    inputs: Mapping[str, Any]

    @property
    def specification(self) -> Specification:
        """The program's operators by name."""
        return self.exported.specification


def subject(weights: str = "narrow", frames: int = 8, seed: int = 0) -> Subject:
    """Return the decoder from `har`, which every runtime agrees about to float32 rounding, patched for export.

    Parameters
    ----------
    weights : str
        As for `models.kokoro.load_model`.
    frames : int
        Frames of text features, 40 per second.
    seed : int
        Of the weights and of the noise.

    Raises
    ------
    InputError
        If it cannot be exported.
    """
    from kokoro_nb.models import stages
    from kokoro_nb.models.case import capture
    from kokoro_nb.models.kokoro import load_model
    from kokoro_nb.models.patches import EXPORT_PATCHES, patched

    kokoro = load_model(weights, seed)
    inputs = capture(kokoro, TEXT, seed=seed).decoder_inputs(frames)
    with patched(kokoro.model, EXPORT_PATCHES):
        from_har = stages.from_har_inputs(kokoro.model.decoder, inputs)
        exported = export_program(stages.FromHarStage(kokoro.model.decoder), from_har)
    if isinstance(exported, Failure):
        raise InputError(f"The decoder cannot be exported: {exported}")
    return Subject(exported, from_har)
