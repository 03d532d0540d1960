"""What faults are planted in: an exported program and the inputs that it is run on."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kokoro_nb.backends.exported import Exported
from kokoro_nb.backends.specification import Specification
from kokoro_nb.numerics.decoder_search import decoder_from_har


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
    decoder = decoder_from_har(weights, seed, frames=frames)
    return Subject(decoder.exported, decoder.inputs)
