"""The proof of the localiser: many planted faults, and of each whether the operator was named exactly.

`study` plants, exports, traces and asks, `study_files` does so with edited files, `summarise` counts.
"""

from kokoro_nb.studies.localisation.edited_files import study_files
from kokoro_nb.studies.localisation.methods import METHODS, Method, View, by_divergence
from kokoro_nb.studies.localisation.planted_study import study
from kokoro_nb.studies.localisation.study_rows import Row, summarise

__all__ = [
    "METHODS",
    "Method",
    "Row",
    "View",
    "by_divergence",
    "study",
    "study_files",
    "summarise",
]
