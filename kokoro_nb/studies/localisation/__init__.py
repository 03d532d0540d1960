"""The proof of the localiser: many planted faults, and of each whether the operator was named exactly."""

from kokoro_nb.studies.localisation.planted_study import study
from kokoro_nb.studies.localisation.study_rows import StudyRow, summarise
from kokoro_nb.studies.localisation.study_runs import METHODS, Method, TracePair, by_divergence

__all__ = ["METHODS", "Method", "StudyRow", "TracePair", "by_divergence", "study", "summarise"]
