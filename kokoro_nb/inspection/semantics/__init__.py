"""What each operator of a file computes, in float64; the modules imported here register what they define."""

from kokoro_nb.inspection.semantics import along_axes, contributed, control_flow, pointwise

__all__ = ["along_axes", "contributed", "control_flow", "pointwise"]
