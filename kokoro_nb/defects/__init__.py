"""Known defects of converters, runtimes and debugging tools, executed on the versions that are installed.

A defect is a claim about today's versions: `measure` runs it, and what has been mended upstream shows as ``gone``.
`write_bundle` makes a folder of it that reproduces it without this package.
"""

from kokoro_nb.defects.catalogue import DEFECTS, STATES, DefectMeasurement, defect, measure
from kokoro_nb.defects.defect_bundle import write_bundle
from kokoro_nb.defects.defect_case import Defect

__all__ = ["DEFECTS", "STATES", "Defect", "DefectMeasurement", "defect", "measure", "write_bundle"]
