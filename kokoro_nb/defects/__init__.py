"""Known defects of converters, runtimes and debugging tools, executed on the versions that are installed.

A defect is a claim about today's versions: `measure` runs it, and what has been mended upstream shows as ``gone``.
`report_script` makes a script of it that shows it without this package.
"""

from kokoro_nb.defects.catalogue import DEFECTS, DefectMeasurement, defect, measure, report_script
from kokoro_nb.defects.defect_case import Defect

__all__ = ["DEFECTS", "Defect", "DefectMeasurement", "defect", "measure", "report_script"]
