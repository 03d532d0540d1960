"""Files that others made: read them, run them, and compute every node again in float64 by the file's own semantics."""

from kokoro_nb.inspection.inspecting import inspect
from kokoro_nb.inspection.inspection_report import InspectionReport

__all__ = ["InspectionReport", "inspect"]
