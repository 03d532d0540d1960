"""The one verb of this room: a file in, a report out."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from kokoro_nb.backends.export_memory import give_back_memory
from kokoro_nb.backends.signature import TensorSpec, checked
from kokoro_nb.errors import InputError
from kokoro_nb.inspection.against_file import first_that_parts
from kokoro_nb.inspection.compared_program import ComparedProgram, of_onnx
from kokoro_nb.inspection.file_run import FileRun, examined
from kokoro_nb.inspection.finding_scripts import Written, program_scripts, write_scripts
from kokoro_nb.inspection.float16_mend import Float16Mend, float16_mend
from kokoro_nb.inspection.formats import FORMATS, read_program
from kokoro_nb.inspection.formats.program_report import program_report, with_findings
from kokoro_nb.inspection.formats.runnable_program import RunnableProgram
from kokoro_nb.inspection.input_maker import MadeInputs, given_inputs, made_inputs
from kokoro_nb.inspection.inspection_report import InspectionReport
from kokoro_nb.inspection.onnx_file import OnnxFile, read_onnx
from kokoro_nb.inspection.onnx_report import heard, onnx_report, static_report
from kokoro_nb.inspection.other_version import OtherVersion, second_opinion
from kokoro_nb.inspection.quantised_mend import QuantisedMend, quantised_mend
from kokoro_nb.inspection.references import Reference, varied
from kokoro_nb.inspection.semantics.onnx_call import Arrays, Tell
from kokoro_nb.inspection.unrounded_layers import candidates
from kokoro_nb.inspection.whole_file import AUDIBLE, has_halves


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
        report = _compared(report, reference, of_onnx(read), made.arrays)
        report = heard(report, seen, reference.program(made.arrays))
    if mend is not None:
        done = _mended(read, seen, Path(mend), level, tell)
        report = replace(report, notes=(*report.notes, f"{Path(mend).name}: {done}"), mended=done)
    if folder is None:
        return report
    report = _with_scripts(report, write_scripts(seen, report.bodies, report.findings, Path(folder)))
    report.page(Path(folder) / "report.html")
    report.overlay(Path(folder) / "overlay")
    return report


def _with_scripts(report: InspectionReport, written: Written) -> InspectionReport:
    scripts, notes = written
    return replace(report, scripts=scripts, notes=(*report.notes, *notes))


def _inputs(file: OnnxFile, reference: Reference | None) -> MadeInputs:
    """Return the inputs of the reference, if it has some that fit, else made ones."""
    if reference is not None and reference.inputs is not None:
        try:
            named = dict(zip([value.name for value in file.inputs], reference.inputs.values(), strict=True))
            return replace(given_inputs(file, named), how=dict.fromkeys(named, f"of {reference.label}"))
        except (InputError, ValueError):
            pass
    return made_inputs(file)


def _compared(
    report: InspectionReport, reference: Reference, file: ComparedProgram, inputs: Arrays
) -> InspectionReport:
    """Add to a report where the file first parts from what is right."""
    known = reference.program(inputs)
    found, note = first_that_parts(known, file, [inputs, *(varied(inputs, seed) for seed in (1, 2))])
    return with_findings(report, found, note)


def _of_program(
    program: RunnableProgram,
    inputs: Mapping[str, Any] | None,
    against: Any,
    static: bool,
    seconds: float,
    folder: str | Path | None,
    tell: Tell,
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
        report = _compared(report, reference, program.compared(), made.arrays)
    if folder is not None:
        report = _with_scripts(report, program_scripts(program, made.arrays, report, Path(folder)))
        report.page(Path(folder) / "report.html")
        report.overlay(Path(folder) / "overlay")
    return report


def _given(inputs: Mapping[str, Any], specs: tuple[TensorSpec, ...]) -> MadeInputs:
    return MadeInputs(checked(inputs, specs), dict.fromkeys((spec.name for spec in specs), "given"))


def _mended(file: OnnxFile, seen: FileRun, path: Path, level: float | None, tell: Tell) -> Float16Mend | QuantisedMend:
    """Write the mended file and return what stays, or goes back to, float32 in it."""
    if candidates(seen.file, seen.budget):
        return quantised_mend(seen, path, level, tell)
    if has_halves(seen):
        raise InputError(f"{file.path} holds floats of 16 bits already; give the float32 file it was made from.")
    return float16_mend(file, seen.inputs, path, level or AUDIBLE, tell)
