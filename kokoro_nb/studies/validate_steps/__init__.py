"""13 asks at which step of the pipeline a runtime departs from PyTorch, and which steps only pass errors on."""

from kokoro_nb.studies.validate_steps.planted_steps import planted_nans
from kokoro_nb.studies.validate_steps.steps_on_runtimes import on_runtimes
from kokoro_nb.studies.validate_steps.validation import follow, walk
from kokoro_nb.studies.validate_steps.walks import leaks

__all__ = ["follow", "leaks", "on_runtimes", "planted_nans", "walk"]
