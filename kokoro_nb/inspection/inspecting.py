"""`inspect`: a file that anybody made, by itself or against its reference, a file or a module."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.backends.artefacts import give_back_memory
from kokoro_nb.backends.base import Failure
from kokoro_nb.backends.exported import Exported, as_exported
from kokoro_nb.backends.signature import as_array, as_tensors, specs
from kokoro_nb.cache_keys import rival_runtimes
from kokoro_nb.errors import InputError
from kokoro_nb.inspection import whole_file
from kokoro_nb.inspection.against_file import WORDS, PairedPrograms
from kokoro_nb.inspection.compared_program import ComparedProgram, by_name, lacking, of_exported, of_onnx
from kokoro_nb.inspection.file_run import FileRun, examined
from kokoro_nb.inspection.float16_foresight import foreseen
from kokoro_nb.inspection.formats import FORMATS, read_program
from kokoro_nb.inspection.input_maker import MadeInputs, given_inputs, made_inputs
from kokoro_nb.inspection.inspection_report import InspectionReport, second_opinion, second_runtime
from kokoro_nb.inspection.judged_run import InspectionFinding, node_findings, write_scripts
from kokoro_nb.inspection.mended_file import MendedFile, float16_mend
from kokoro_nb.inspection.node_judgement import has_halves
from kokoro_nb.inspection.onnx_file import OnnxFile, read_onnx
from kokoro_nb.inspection.onnx_model import OnnxNode, nodes_of
from kokoro_nb.inspection.paired_values import OTHER
from kokoro_nb.inspection.quantised_mend import candidates, quantised_mend
from kokoro_nb.inspection.semantics.onnx_call import bodies_of
from kokoro_nb.inspection.value_types import Arrays, Tell, Values
from kokoro_nb.locate.culprit import Mechanism
from kokoro_nb.markup import listed, number
from kokoro_nb.traces.record import sketched
from kokoro_nb.traces.trace import TRAINS

CUT = 0.1  # of the values of an activation: what calibration leaves out is a thousandth or less


@dataclass(frozen=True, eq=False)
class OnnxFileProgram:
    """What `inspect` asks of a file of ONNX; of one of another format see `CapturedProgram`.

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
        unsound = (name for name, one in file.constants.items() if one.dtype.kind == "f" and np.isnan(one).any())
        findings = tuple(InspectionFinding("constant", "file", f"The constant '{one}' holds NaN.") for one in unsound)
        notes = (*file.notes, *whole_file.constants_noted(file), *_drawing(nodes))
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
        outputs = tuple(whole_file.summaries(seen))
        more, noted = whole_file.whole_findings(seen, outputs, bool(findings))
        halves = has_halves(seen.judgements)
        ahead = seen.foresight if seen.complete and not halves else ()
        if halves and seen.complete and not findings and not more:  # on a runtime that computes in the file's own types
            more = tuple(whole_file.half_precision_findings(seen))
        noted = (*notes, *_bodies(seen.nodes), *noted, *_drawing(seen.nodes), *_unlike(seen.unlike))
        said = (*file.notes, *noted, *foreseen(ahead), *seen.budget.stated())
        runtime, found, count = f"onnxruntime {onnxruntime.__version__}", (*findings, *more), len(seen.nodes)
        report = InspectionReport(file.path, runtime, found, said, seen.judgements, outputs, made.how, count)
        return replace(report, foresight=ahead, budget=seen.budget)

    def compared(self) -> ComparedProgram:
        """Return it for a comparison with another program."""
        return of_onnx(self.file)


def _bodies(nodes: Sequence[OnnxNode]) -> tuple[str, ...]:
    """Return in a sentence which nodes hold others, which are not judged one by one."""
    holding = [node.key for node in nodes if bodies_of(node.proto)]
    return (f"The nodes inside of {listed(holding)} were not judged one by one.",) if holding else ()


def _drawing(nodes: Sequence[OnnxNode]) -> tuple[str, ...]:
    """Return in sentences which nodes draw at random, and which are in training mode."""
    drawing = [node.key for node in nodes if node.is_random]
    said = (f"{len(drawing)} nodes draw at random: {', '.join(drawing[:5])}.",) if drawing else ()
    modes = (node for node in nodes if any(one.name == "training_mode" and one.i for one in node.proto.attribute))
    return (*said, *(f"{node} {TRAINS}." for node in modes))


def _unlike(nodes: Mapping[OnnxNode, str]) -> tuple[str, ...]:
    """Return in a sentence for each other run which nodes differ there though they are given the same."""
    keys = {run: [str(node) for node, one in nodes.items() if one == run] for run in dict.fromkeys(nodes.values())}
    return tuple(f"Given the same, these nodes give something else in {run}: {listed(keys[run])}." for run in keys)


@dataclass(frozen=True, eq=False)
class Reference:
    """What is right.

    Attributes
    ----------
    what : OnnxFileProgram, CapturedProgram, Exported or torch.nn.Module
        A module is exported once the inputs are known.
    label : str
        What it is called in a sentence.
    inputs : mapping or None
        Arrays or tensors by name that came with it.
    """

    what: Any
    label: str
    inputs: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, against: Any) -> "Reference":
        """Read a path, a module, an exported program, or a pair of either with inputs by name.

        Raises
        ------
        InputError
            If it is none of these, or a file that cannot be read.
        """
        import torch

        if isinstance(against, str | Path):
            return cls(opened(Path(against)), Path(against).name)
        what, inputs = against if isinstance(against, tuple) and len(against) == 2 else (against, None)
        if not isinstance(what, torch.nn.Module | Exported) or not isinstance(inputs, Mapping | None):
            words = f"A file cannot be compared with a {type(what).__name__}; give a path, a torch.nn.Module, or a pair"
            raise InputError(f"{words} of a module and its inputs by name.")
        module = what.module if isinstance(what, Exported) else what
        return cls(what, f"the module {type(module).__name__}", inputs)

    def program(self, inputs: Mapping[str, np.ndarray]) -> ComparedProgram:
        """Return it for a comparison on inputs of these shapes.

        Raises
        ------
        InputError
            If a module does not take them, or cannot be exported.
        """
        if isinstance(self.what, Exported):
            return of_exported(self.what, self.label)
        if not hasattr(self.what, "forward"):
            return self.what.compared()
        parameters = signature(self.what.forward).parameters.values()
        needed = [one.name for one in parameters if one.default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD]
        held = {name: as_array(name, one) for name, one in lacking(inputs, self.inputs or {}).items()}
        named = by_name(needed if self.inputs is None else list(self.inputs), {**held, **inputs}, self.label)
        given = as_tensors(named, specs(named if self.inputs is None else self.inputs))
        return of_exported(exported_reference(self.what.eval(), given), self.label).held_at(held)


def exported_reference(program: Any, inputs: Mapping[str, Any]) -> Exported:
    """Return what is right exported with these inputs.

    Raises
    ------
    InputError
        If it does not take them, or cannot be exported.
    """
    exported = as_exported(program, inputs, "eager")
    if isinstance(exported, Failure):
        raise InputError(f"The reference cannot be exported, so that nothing can be compared with it: {exported}")
    return exported


def opened(path: Path) -> Any:
    """Return the program that a file holds: a `CapturedProgram` or an `OnnxFileProgram`; InputError if none."""
    return read_program(path) if path.suffix in FORMATS else OnnxFileProgram(read_onnx(path))


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
        Where the page and a script for each finding are written.
    mend : path, optional
        Where a mended file is written: of a float32 file of ONNX one in float16 with the fewest nodes left in float32,
        of one whose activations are integers the same with the fewest layers back in float; see
        `kokoro_nb.inspection.mended_file` and `kokoro_nb.inspection.quantised_mend`.
    level : float, optional
        The least level of the mended file's outputs over their error, dB. By default 20 dB in float16, and of a
        quantised file that over the noise of its rounded weights.
    other_python : path, optional
        Interpreter of an environment with another version of the runtime and what this package needs: the file is
        inspected there as well, and where that gives what float64 does, the version here is to blame.
    tell : callable
        Is given a line on how far it is.

    Returns
    -------
    InspectionReport
        `first`, `worst(n)`, `table()`, `page(path)`; printed, it says what was found.

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
    if other_python is not None and static:
        raise InputError("Only a file that is run can be run on another version; leave --static or --other-python out.")
    other = "" if other_python is None else second_runtime(other_python, path)
    program = opened(path)
    give_back_memory()
    tell("it was read")
    reference = None if against is None else Reference.of(against)
    if static:
        return program.static()
    if path.suffix not in FORMATS and (two := rival_runtimes()):
        raise InputError(two)
    made = program.given(inputs) if inputs is not None else _inputs(program, reference)
    tell("its inputs are there")
    seen = program.examined(made.arrays, seconds, tell)
    given = tuple(sketched(value, name=name) for name, value in made.arrays.items())
    report = replace(program.report(made, seen, tell), given=given)
    if other_python is not None:
        report = second_opinion(report, other_python, other, made.arrays, tell)
    if reference is not None:
        comparison = PairedPrograms.of(reference.program(made.arrays), program.compared(), made.arrays)
        report = with_findings(report, comparison, seen.outputs)
    if mend is not None:
        done = _mended(seen, Path(mend), level, tell)
        report = replace(report, notes=(*report.notes, f"{Path(mend).name}: {done}"), mended=done)
    if folder is not None:
        scripts, notes = write_scripts(report.findings, seen, Path(folder))
        report = replace(report, scripts=scripts, notes=(*report.notes, *notes))
        report.page(Path(folder) / "report.html")
    return report


def _inputs(program: Any, reference: Reference | None) -> MadeInputs:
    """Return the inputs of the reference, if it has some that fit, else made ones."""
    if reference is not None and reference.inputs is not None:
        with suppress(InputError):  # they do not fit the file
            own, held = reference.inputs, lacking(program.inputs, reference.inputs)
            named = by_name(program.inputs, {one: own[one] for one in own if one not in held}, reference.label)
            return replace(program.given(named), how=dict.fromkeys(named, f"of {reference.label}"))
    made: MadeInputs = program.made()
    if reference is None or not hasattr(reference.what, "made") or len(reference.what.inputs) != len(program.inputs):
        return made
    with suppress(InputError):  # it takes one length alone, where the file takes any
        reference.what.given(by_name(reference.what.inputs, made.arrays, reference.label))
        return made
    theirs = reference.what.made()
    named, how = (by_name(program.inputs, one, reference.label) for one in (theirs.arrays, theirs.how))
    return replace(program.given(named), how=how)


def with_findings(report: InspectionReport, comparison: PairedPrograms, outputs: Values) -> InspectionReport:
    """Add to a report where the file first parts from what is right; `outputs` are what the runtime gave."""
    found = comparison.finding
    if found is not None and found.kind == "outputs" and report.budget.layers:
        found = _of_integers(found, report)
    every = [*report.findings, *filter(None, (found, comparison.unseen(outputs)))]
    findings = sorted(every, key=lambda one: (one.index < 0, one.index))
    return replace(report, findings=tuple(findings), notes=(*report.notes, comparison.note))


def _of_integers(found: InspectionFinding, report: InspectionReport) -> InspectionFinding:
    """Return the finding that outputs are others at the activation that its integers cut most, if they cut much.

    Else at the noisiest quantised layer, if its noise may explain them.
    """
    worst, cut = report.budget.noisiest[0], next(iter(sorted(report.budget.values, key=lambda one: -one.clipped)), None)
    proof, node, blame = report.budget.stated(), worst, "precision"
    if cut is not None and cut.clipped > CUT:
        node = next(one for one in report.judgements if one.key == cut.key)  # type: ignore[assignment]
        blame, why = "file", f" explains it: the range of its integers cuts {cut.clipped:.2%} of '{cut.name}'"
    elif worst.level is None or 10 ** (-worst.level / 20) < OTHER / 4:
        return found
    else:
        why = f", the noisiest quantised layer, may explain it: {number(worst.level)} dB over its own noise"
    statement = found.statement.replace("no node explains it", f"{node}{why}")
    mechanism = Mechanism("quantisation range", WORDS["quantisation range"], proof)
    return InspectionFinding.at(node, "outputs", blame, statement, *proof, mechanism=mechanism)  # type: ignore[arg-type]


def _mended(seen: FileRun, path: Path, level: float | None, tell: Tell) -> MendedFile:
    """Write the mended file and return what stays, or goes back to, float32 in it."""
    file = seen.file.path
    if seen.drawn:
        raise InputError(f"{file} draws at random, so that two runs cannot be compared; give the noise as an input.")
    if candidates(seen.file, seen.budget):
        return quantised_mend(seen, path, level, tell)
    if has_halves(seen.judgements):
        raise InputError(f"{file} holds floats of 16 bits already; give the float32 file it was made from.")
    return float16_mend(seen, path, level or whole_file.AUDIBLE, tell)
