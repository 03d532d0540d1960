"""The first wrong operator: by its own error on its own inputs, and by where what is not finite begins."""

from kokoro_nb.locate.culprit import Culprit
from kokoro_nb.locate.investigation import Investigation, investigate, reference_trace
from kokoro_nb.locate.verdicts import divergences, first_divergence, first_nonfinite, judged

__all__ = [
    "Culprit",
    "Investigation",
    "divergences",
    "first_divergence",
    "first_nonfinite",
    "investigate",
    "judged",
    "reference_trace",
]
