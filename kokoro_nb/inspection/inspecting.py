"""The one verb of this room: a file in, a report out."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.backends.artefacts import give_back_memory
from kokoro_nb.backends.signature import TensorSpec, checked
from kokoro_nb.errors import InputError
from kokoro_nb.inspection.against_file import first_that_parts
from kokoro_nb.inspection.blame import InspectionFinding, node_findings
from kokoro_nb.inspection.body_runs import body_findings, body_runs
from kokoro_nb.inspection.compared_program import ComparedProgram, of_onnx
from kokoro_nb.inspection.file_run import FileRun, examined
from kokoro_nb.inspection.finding_scripts import Operators, onnx_operators, program_operators, write_scripts
from kokoro_nb.inspection.float16_foresight import float16_foresight, foreseen, half_precision_findings
from kokoro_nb.inspection.float16_mend import float16_mend
from kokoro_nb.inspection.formats import FORMATS, read_program
from kokoro_nb.inspection.formats.program_report import program_report, with_findings
from kokoro_nb.inspection.formats.runnable_program import RunnableProgram
from kokoro_nb.inspection.input_maker import MadeInputs, given_inputs, made_inputs
from kokoro_nb.inspection.inspection_report import InspectionReport
from kokoro_nb.inspection.mended_file import MendedFile
from kokoro_nb.inspection.onnx_file import OnnxFile, read_onnx
from kokoro_nb.inspection.onnx_nodes import OnnxNode, nodes_of
from kokoro_nb.inspection.onnx_session import run_ways
from kokoro_nb.inspection.other_version import OtherVersion, second_opinion
from kokoro_nb.inspection.quantised_mend import quantised_mend
from kokoro_nb.inspection.references import Reference, varied
from kokoro_nb.inspection.unrounded_layers import candidates
from kokoro_nb.inspection.value_types import Arrays, Tell, Values
from kokoro_nb.inspection.whole_file import AUDIBLE, constants_noted, has_halves, summaries, whole_findings


def inspect(
    file: str | Path,
    inputs: Mapping[str, Any] | None = None,
    against: Any = None,
    *,
    static: bool = False,
    seconds: float = float("inf"),
    folder: str | Path | None = None,
    mend: str | Path | None = None,
    level: float | None = None,
    other_python: str | Path | None = None,
    tell: Tell = str,
) -> InspectionReport:
    """Find out which node of a model file is wrong, and whether the file, the runtime or its number type is to blame.

    Every node is computed again in float64, as its definition says, on the values that it was given on the runtime.

    Parameters
    ----------
    file : path
        An ONNX file, or a ``.pt2``, ``.pte``, ``.mlpackage`` or ``.mlmodel``.
    inputs : mapping of str to array, optional
        By the names of the file; without any, valid ones are made from the graph.
    against : path, torch.nn.Module, Exported, or a pair of either and its inputs by name, optional
        What is right, another file or the module that was exported: the first node that parts from it is named. Without
        `inputs`, those of a pair are taken, if they fit the file.
    static : bool
        Only read the file, and run nothing.
    seconds : float
        After which no further nodes are judged; what was seen until then is reported.
    folder : path, optional
        Where the page, the overlays and a script for each finding are written.
    mend : path, optional
        Where a mended file is written: of a float32 file of ONNX one in float16 with the fewest nodes left in float32,
        of one whose activations are integers the same with the fewest layers back in float; see
        `kokoro_nb.inspection.float16_mend` and `kokoro_nb.inspection.quantised_mend`.
    level : float, optional
        The least level of the mended file's outputs over their error, dB. By default 20 dB in float16, and of a
        quantised file that over the noise of its rounded weights.
    other_python : path, optional
        Interpreter of an environment with another version of ONNX Runtime: the file is run there as well, and where
        that gives what float64 does, the version here is to blame.
    tell : callable
        Is given a line on how far it is.

    Returns
    -------
    InspectionReport
        `first`, `worst(n)`, `table()`, `page(path)`, `overlay(folder)`; printed, it says what was found.

    Raises
    ------
    InputError
        If the file cannot be read or run, or the inputs do not fit it.
    """
    path = Path(file)
    if mend is not None and (static or path.suffix in FORMATS):
        raise InputError("Only an .onnx file that is run can be mended; give one, and leave --static out.")
    if level is not None and not 0 < level < float("inf"):
        raise InputError(f"The level of a mended file must be above 0 dB and finite; it is {level}.")
    if other_python is not None and (static or path.suffix in FORMATS):
        raise InputError("Only an .onnx file that is run can be run on another version; leave --other-python out.")
    other = None if other_python is None else OtherVersion.of(other_python)
    if path.suffix in FORMATS:
        return _of_program(read_program(path), inputs, against, static, seconds, folder, tell)
    read = read_onnx(path)
    give_back_memory()
    tell("it was read")
    reference = None if against is None else Reference.of(against)
    if static:
        return static_report(read)
    made = given_inputs(read, inputs) if inputs is not None else _inputs(read, reference)
    tell("its inputs are there")
    seen = examined(read, made.arrays, seconds, tell, in_all_ways=True)
    report = onnx_report(read, made, seen, tell)
    if other is not None:
        found, notes = second_opinion(seen, report.findings, other, report.runtime)
        report = replace(report, findings=found, notes=(*report.notes, *notes))
        tell(f"the file ran on {other.label}")
    if reference is not None:
        report = _diff(report, reference.program(made.arrays), of_onnx(read), made.arrays)
    if mend is not None:
        done = _mended(read, seen, Path(mend), level, tell)
        report = replace(report, notes=(*report.notes, f"{Path(mend).name}: {done}"), mended=done)
    if folder is None:
        return report
    return _written(report, onnx_operators(seen, report.bodies), Path(folder))


def _written(report: InspectionReport, operators: Operators, folder: Path) -> InspectionReport:
    """Add scripts for the findings at these operators to a report, and write it beside them."""
    scripts, notes = write_scripts(report.findings, operators, folder)
    report = replace(report, scripts=scripts, notes=(*report.notes, *notes))
    report.page(folder / "report.html")
    report.overlay(folder / "overlay")
    return report


def _inputs(file: OnnxFile, reference: Reference | None) -> MadeInputs:
    """Return the inputs of the reference, if it has some that fit, else made ones."""
    if reference is not None and reference.inputs is not None:
        try:
            named = dict(zip([value.name for value in file.inputs], reference.inputs.values(), strict=True))
            return replace(given_inputs(file, named), how=dict.fromkeys(named, f"of {reference.label}"))
        except (InputError, ValueError):
            pass
    return made_inputs(file)


def _diff(report: InspectionReport, known: ComparedProgram, file: ComparedProgram, inputs: Arrays) -> InspectionReport:
    """Add to a report where the file first parts from what is right."""
    found, note = first_that_parts(known, file, [inputs, *(varied(inputs, seed) for seed in (1, 2))])
    return with_findings(report, found, note)


def _of_program(
    program: RunnableProgram, inputs: Values | None, against: Any, static: bool, seconds: float, folder: Any, tell: Tell
) -> InspectionReport:
    """Inspect a file that is not ONNX."""
    reference = None if against is None else Reference.of(against)
    facts = program.facts
    if static:
        count = len(program.operators)
        return InspectionReport(facts.path, "nothing: not run", (), facts.notes, (), (), {}, count, graph=facts.graph)
    if inputs is None and reference is not None and reference.inputs is not None:
        inputs = dict(zip([spec.name for spec in facts.inputs], reference.inputs.values(), strict=False))
    made = program.made_inputs() if inputs is None else _given(inputs, facts.inputs)
    report = program_report(program, made, seconds, tell)
    if reference is not None:
        report = _diff(report, reference.program(made.arrays), program.compared(), made.arrays)
    if folder is None:
        return report
    return _written(report, program_operators(program, made.arrays, report.judgements), Path(folder))


def _given(inputs: Mapping[str, Any], specs: tuple[TensorSpec, ...]) -> MadeInputs:
    return MadeInputs(checked(inputs, specs), dict.fromkeys((spec.name for spec in specs), "given"))


def _mended(file: OnnxFile, seen: FileRun, path: Path, level: float | None, tell: Tell) -> MendedFile:
    """Write the mended file and return what stays, or goes back to, float32 in it."""
    if candidates(seen.file, seen.budget):
        return quantised_mend(seen, path, level, tell)
    if has_halves(seen.judgements):
        raise InputError(f"{file.path} holds floats of 16 bits already; give the float32 file it was made from.")
    return float16_mend(file, seen.inputs, path, level or AUDIBLE, tell)


def onnx_report(file: OnnxFile, made: MadeInputs, seen: FileRun, tell: Tell) -> InspectionReport:
    """Return the report of a file that was run.

    Parameters
    ----------
    file : OnnxFile
        The file as it is.
    made : MadeInputs
        What went into it, and where that is from.
    seen : FileRun
        What was seen of its nodes.
    tell : callable
        Is given a line on how far it is.
    """
    import onnxruntime

    def others() -> Arrays | None:
        try:
            return made_inputs(file, seed=1).arrays
        except InputError:
            return None

    findings, notes = node_findings(seen, others)
    bodies, unrun = body_runs(seen)
    findings = (*findings, *body_findings(bodies, seen.nodes))
    runs = seen.others or run_ways(seen.file.model, seen.inputs)[1]
    outputs = summaries(seen, file, runs)
    more, noted = whole_findings(seen, runs, outputs, bool(findings))
    ahead = float16_foresight(seen.file, seen.inputs, tell) if seen.complete and not has_halves(seen.judgements) else ()
    more = (*more, *(() if findings or more else _in_own_types(seen, tell)))
    late = () if seen.complete else (f"The time was up after {len(seen.judgements):,} of {len(seen.nodes):,} nodes.",)
    said = (
        *late,
        *notes,
        *unrun,
        *noted,
        *_drawing(seen.nodes),
        *_unlike(seen.unlike),
    )
    return InspectionReport(
        file.path,
        f"onnxruntime {onnxruntime.__version__}",
        (*findings, *more),
        (*file.notes, *said, *foreseen(ahead), *seen.budget.stated()),
        seen.judgements,
        outputs,
        made.how,
        len(seen.nodes),
        graph=file.model.graph.name or "<main>",
        foresight=ahead,
        bodies=bodies,
        budget=seen.budget,
    )


def _in_own_types(seen: FileRun, tell: Tell) -> Iterator[InspectionFinding]:
    """Yield what the file's own float16 would do on a runtime that computes in it."""
    narrow = {one.name for judgement in seen.judgements for one in judgement.outputs if one.dtype == "float16"}
    if narrow and seen.complete:
        yield from half_precision_findings(seen, float16_foresight(seen.file, seen.inputs, tell, narrow=narrow))


def _drawing(nodes: Sequence[OnnxNode]) -> tuple[str, ...]:
    """Return in a sentence which nodes draw at random."""
    drawing = [node.key for node in nodes if node.is_random]
    return (f"{len(drawing)} nodes draw at random: {', '.join(drawing[:5])}.",) if drawing else ()


def _unlike(nodes: Mapping[OnnxNode, str]) -> tuple[str, ...]:
    """Return in a sentence for each other run which nodes differ there though they are given the same."""
    found = []
    for run in dict.fromkeys(nodes.values()):
        keys = [f"{node.key} ({node.operator})" for node, one in nodes.items() if one == run]
        more = f" and {len(keys) - 5:,} more" if len(keys) > 5 else ""
        found.append(f"Given the same, these nodes give something else in {run}: {', '.join(keys[:5])}{more}.")
    return tuple(found)


def static_report(file: OnnxFile) -> InspectionReport:
    """Return what the file says without being run."""
    nodes = nodes_of(file.model.graph)
    notes = [*file.notes, *constants_noted(file), *_drawing(nodes)]
    findings = [
        InspectionFinding("constant", "file", f"The constant '{name}' holds NaN.")
        for name, array in file.constants.items()
        if array.dtype.kind == "f" and np.isnan(array).any()
    ]
    graph = file.model.graph.name or "<main>"
    return InspectionReport(
        file.path, "nothing: not run", tuple(findings), tuple(notes), (), (), {}, len(nodes), graph=graph
    )
