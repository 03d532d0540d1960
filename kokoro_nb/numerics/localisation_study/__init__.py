"""The proof of the localiser: many planted faults, and of each whether the operator was named exactly.

`study` plants, exports, traces and asks, `study_files` does so with edited files, `summarise` counts.
"""

from kokoro_nb.numerics.localisation_study.files import study_files
from kokoro_nb.numerics.localisation_study.methods import METHODS, Method, View, by_divergence
from kokoro_nb.numerics.localisation_study.rows import Row, summarise
from kokoro_nb.numerics.localisation_study.study import study

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
