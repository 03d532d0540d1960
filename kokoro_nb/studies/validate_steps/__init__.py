"""13 asks at which step of the pipeline a runtime departs from PyTorch, and which steps only pass errors on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kokoro_nb.backends import backend
from kokoro_nb.backends.base import absence
from kokoro_nb.faults import planted
from kokoro_nb.studies.validate_steps.step_rows import StepResult, with_floor
from kokoro_nb.studies.validate_steps.validation import follow, walk


@dataclass(frozen=True)
class StepErrors:
    """The steps of one utterance on each runtime, by its name; for a figure."""

    found: Mapping[str, Sequence[StepResult]]
