"""A file of ONNX as an inspection sees it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kokoro_nb.inspection.compared_program import ComparedProgram, of_onnx
from kokoro_nb.inspection.file_run import FileRun, examined
from kokoro_nb.inspection.float16_foresight import float16_foresight, foreseen
from kokoro_nb.inspection.input_maker import MadeInputs, given_inputs, made_inputs
from kokoro_nb.inspection.inspection_report import InspectionReport
from kokoro_nb.inspection.judged_run import InspectionFinding, node_findings
from kokoro_nb.inspection.node_judgement import has_halves
from kokoro_nb.inspection.onnx_file import OnnxFile
from kokoro_nb.inspection.onnx_model import OnnxNode, nodes_of
from kokoro_nb.inspection.semantics.control_flow import bodies_of
from kokoro_nb.inspection.value_types import Arrays, Tell
from kokoro_nb.inspection.whole_file import constants_noted, half_precision_findings, summaries, whole_findings
from kokoro_nb.markup import listed


@dataclass(frozen=True, eq=False)
class OnnxFileProgram:
    """What `kokoro_nb.inspection.inspecting` asks of a file.

    Attributes
    ----------
    file : OnnxFile
        The file as it was read.
    """

    file: OnnxFile

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the inputs, in order."""
        return tuple(value.name for value in self.file.inputs)

    def static(self) -> InspectionReport:
        """Return what the file says without being run."""
        file, nodes = self.file, nodes_of(self.file.model.graph)
        findings = tuple(
            InspectionFinding("constant", "file", f"The constant '{name}' holds NaN.")
            for name, array in file.constants.items()
            if array.dtype.kind == "f" and np.isnan(array).any()
        )
        notes = (*file.notes, *constants_noted(file), *_drawing(nodes))
        return InspectionReport(file.path, "nothing: not run", findings, notes, (), (), {}, len(nodes))

    def made(self) -> MadeInputs:
        """Return valid inputs, and how each was made."""
        return made_inputs(self.file)

    def given(self, inputs: Mapping[str, Any]) -> MadeInputs:
        """Return the caller's inputs in the types of the file; InputError if they do not fit."""
        return given_inputs(self.file, inputs)

    def examined(self, inputs: Arrays, seconds: float = float("inf"), tell: Tell = str) -> FileRun:
        """Run it in all ways and judge its nodes: see `file_run.examined`."""
        return examined(self.file, inputs, seconds, tell)

    def report(self, made: MadeInputs, seen: FileRun, tell: Tell = str) -> InspectionReport:
        """Return the report of a run."""
        import onnxruntime

        file = self.file
        findings, notes = node_findings(seen)
        outputs = tuple(summaries(seen))
        more, noted = whole_findings(seen, outputs, bool(findings))
        floats = seen.complete and not has_halves(seen.judgements)
        ahead = seen.foresight if floats else ()
        narrow = {one.name for judgement in seen.judgements for one in judgement.outputs if one.dtype == "float16"}
        if narrow and seen.complete and not findings and not more:  # on a runtime that computes in the file's own types
            more = tuple(half_precision_findings(seen, float16_foresight(seen.file, seen.inputs, tell, narrow=narrow)))
        noted = (*notes, *_bodies(seen.nodes), *noted, *_drawing(seen.nodes), *_unlike(seen.unlike))
        said = (*file.notes, *noted, *foreseen(ahead), *seen.budget.stated())
        about = file.path, f"onnxruntime {onnxruntime.__version__}", (*findings, *more), said, seen.judgements
        return InspectionReport(*about, outputs, made.how, len(seen.nodes), foresight=ahead, budget=seen.budget)

    def compared(self) -> ComparedProgram:
        """Return it for a comparison with another program."""
        return of_onnx(self.file)


def _bodies(nodes: Sequence[OnnxNode]) -> tuple[str, ...]:
    """Return in a sentence which nodes hold others, which are not judged one by one."""
    holding = [node.key for node in nodes if bodies_of(node.proto)]
    return (f"The nodes inside of {listed(holding)} were not judged one by one.",) if holding else ()


def _drawing(nodes: Sequence[OnnxNode]) -> tuple[str, ...]:
    """Return in a sentence which nodes draw at random."""
    drawing = [node.key for node in nodes if node.is_random]
    return (f"{len(drawing)} nodes draw at random: {', '.join(drawing[:5])}.",) if drawing else ()


def _unlike(nodes: Mapping[OnnxNode, str]) -> tuple[str, ...]:
    """Return in a sentence for each other run which nodes differ there though they are given the same."""
    found = []
    for run in dict.fromkeys(nodes.values()):
        keys = [f"{node.key} ({node.operator})" for node, one in nodes.items() if one == run]
        found.append(f"Given the same, these nodes give something else in {run}: {listed(keys)}.")
    return tuple(found)
