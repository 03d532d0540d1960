"""Localisation: which operators of an export are wrong by themselves."""

from kokoro_nb.locate.culprit import Culprit
from kokoro_nb.locate.diagnosis import Diagnosis
from kokoro_nb.locate.investigation import Investigation, investigate, reference_trace
from kokoro_nb.locate.verdicts import divergences, first_nonfinite, judged

__all__ = [
    "Culprit",
    "Diagnosis",
    "Investigation",
    "divergences",
    "first_nonfinite",
    "investigate",
    "judged",
    "reference_trace",
]
