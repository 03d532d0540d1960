"""One part of the decoder that is known to be right, and the faults that are planted in it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kokoro.model import KModel

from kokoro_nb.backends.base import Failure
from kokoro_nb.backends.exported import Exported, export_program
from kokoro_nb.errors import InputError
from kokoro_nb.faults import Fault, generate
from kokoro_nb.models import stages
from kokoro_nb.models.case import Case
from kokoro_nb.models.patches import EXPORT_PATCHES, patched


@dataclass(frozen=True)
class BisectedPart:
    """The exported part, and what goes into it in the utterance: name -> tensor."""

    program: Exported
    inputs: Mapping[str, Any]

    def faults(self, number: int, seed: int, kinds: Sequence[str]) -> list[Fault]:
        """Draw faults to be planted in it: see `kokoro_nb.faults.generate`."""
        return generate(self.program.specification, number, seed, kinds)


def decoder_part(model: KModel, case: Case, frames: int, part: str) -> BisectedPart:
    """Export one part of the patched decoder.

    Parameters
    ----------
    model : kokoro.model.KModel
        Without patches.
    case : Case
        The utterance.
    frames : int
        How much of it.
    part : str
        A key of `kokoro_nb.models.stages.parts`.

    Raises
    ------
    InputError
        If there is no such part, or it cannot be exported.
    """
    with patched(model, EXPORT_PATCHES):
        parts = stages.parts(model.decoder, case.decoder_inputs(frames))
        if part not in parts:
            raise InputError(f"The decoder has no part '{part}'; use one of {', '.join(parts)}.")
        module, inputs = parts[part]
        program = export_program(module, inputs)
    if isinstance(program, Failure):
        raise InputError(f"The part '{part}' cannot be exported: {program}")
    return BisectedPart(program, inputs)
