"""What each operator of a file computes, in float64; the modules imported here register what they define."""

from kokoro_nb.inspection.semantics import plain

__all__ = ["plain"]
