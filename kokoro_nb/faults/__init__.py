"""Faults planted on purpose: what a check must reject before its passing means anything.

In a module (`modules`), at one operator of an exported program (`planting`; the kinds are in `kinds`), or behind
everybody's back in the file that a backend has written (`files`). `generator` draws many of them.
"""

from kokoro_nb.faults.artefact_files import (
    edit_mlpackage_weight,
    edit_onnx_weight,
    mlpackage_reads,
    mlpackage_weights,
    onnx_reads,
    onnx_weights,
)
from kokoro_nb.faults.generator import generate, possible
from kokoro_nb.faults.kinds import KINDS
from kokoro_nb.faults.modules import nearly_constant, planted
from kokoro_nb.faults.planting import Fault, plant

__all__ = [
    "KINDS",
    "Fault",
    "edit_mlpackage_weight",
    "edit_onnx_weight",
    "generate",
    "mlpackage_reads",
    "mlpackage_weights",
    "nearly_constant",
    "onnx_reads",
    "onnx_weights",
    "plant",
    "planted",
    "possible",
]
