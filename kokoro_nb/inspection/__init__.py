"""The two doors of the engine: `diagnose` a module on a runtime, and `inspect` a file that somebody made."""

from kokoro_nb.inspection.inspecting import inspect
from kokoro_nb.inspection.inspection_report import InspectionReport
from kokoro_nb.inspection.procedure import diagnose

__all__ = ["InspectionReport", "diagnose", "inspect"]
