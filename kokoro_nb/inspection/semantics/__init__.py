"""What each operator of a file computes, in float64; the modules imported here register what they define."""

from kokoro_nb.inspection.semantics import (
    contributed,
    control_flow,
    convolution_semantics,
    pointwise,
    quantised,
    recurrences,
    statistics_semantics,
    transforms,
)

__all__ = [
    "contributed",
    "control_flow",
    "convolution_semantics",
    "pointwise",
    "quantised",
    "recurrences",
    "statistics_semantics",
    "transforms",
]
