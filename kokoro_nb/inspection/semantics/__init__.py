"""What each operator of a file computes, in float64; the modules imported here register what they define."""

from kokoro_nb.inspection.semantics import control_flow
from kokoro_nb.inspection.semantics import plain as along_axes
from kokoro_nb.inspection.semantics import plain as contributed
from kokoro_nb.inspection.semantics import plain as pointwise

__all__ = ["along_axes", "contributed", "control_flow", "pointwise"]
