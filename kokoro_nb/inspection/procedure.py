"""`diagnose`: a program on a runtime, by its export or by a file that is one, traced or searched by bisection.

The program may be a module of the user's own, made by a function that is named: ``file.py:function``.
"""

import importlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, get_args

import numpy as np

from kokoro_nb.backends import backend as named_backend
from kokoro_nb.backends.base import Backend, Failure, running
from kokoro_nb.backends.exported import Exported, as_exported
from kokoro_nb.backends.signature import Arrays, checked
from kokoro_nb.backends.specification import Specification
from kokoro_nb.errors import InputError
from kokoro_nb.inspection.against_file import PairedPrograms
from kokoro_nb.inspection.compared_program import by_name, lacking, of_exported
from kokoro_nb.inspection.formats import FORMATS
from kokoro_nb.inspection.inspecting import exported_reference, opened, with_findings
from kokoro_nb.inspection.inspection_report import InspectionReport
from kokoro_nb.inspection.value_types import refusing
from kokoro_nb.locate.culprit import Culprit, Kind
from kokoro_nb.locate.diagnosis import Diagnosis
from kokoro_nb.locate.investigation import Subject, investigate, reference_trace
from kokoro_nb.locate.module_diagnosis import bisected_diagnosis, drawing, placed, traced_diagnosis, with_plain_state
from kokoro_nb.locate.output_error import LOST, OutputError, output_error
from kokoro_nb.locate.paired_programs import other_program, parting, with_inputs
from kokoro_nb.locate.refusal import failed_diagnosis, supplied
from kokoro_nb.locate.remedies import AS_THE_REFERENCE, EXPORTED_ANEW, in_its_place, with_noise_as_input
from kokoro_nb.traces.statistics import describe
from kokoro_nb.traces.trace import Operator, Tap, Trace


def diagnosed_file(subject: Subject, file: str | Path) -> Diagnosis:
    """Judge each node of a file on its runtime, compare the file with the module, and name operators of the module.

    Raises
    ------
    InputError
        If the file is absent, damaged, of another runtime, or of a module with other inputs, outputs or values.
    """
    path, module, runtime = Path(file), subject.healthy, subject.runtime
    suffix = Path(str(getattr(runtime, "file", ""))).suffix
    if path.suffix != suffix:
        runs = f"runs {suffix} files" if suffix else "runs no files"
        other = f", or compare it with the module by `kokoro-nb inspect {path} --against`" * (path.suffix in FORMATS)
        raise InputError(f"{path} does not run on {runtime.name}, which {runs}; name the backend that runs it{other}.")
    program, inputs = opened(path), checked(subject.inputs, module.inputs)
    other, label = f"{path} is no export of this module", f"the module {type(module.module).__name__}"
    candidate, held = program.compared(), lacking(program.inputs, inputs)
    reference, inputs = of_exported(module, label).held_at(held), {k: v for k, v in inputs.items() if k not in held}
    mine, theirs = ((len(one.inputs), len(one.outputs)) for one in (reference, candidate))
    if mine != theirs:
        counts = f"{theirs[0]} inputs and {theirs[1]} outputs, the module {mine[0]} and {mine[1]}"
        raise InputError(f"{other}: it has {counts}.")
    try:
        made = program.given(by_name(program.inputs, inputs, path.name))
    except InputError as error:
        raise InputError(f"{other}: {error}") from error
    seen = program.examined(made.arrays)
    comparison = PairedPrograms.of(reference, candidate, made.arrays)
    if comparison.unrelated:
        raise InputError(f"{other}: it has none of the module's values and constants.")
    report = with_findings(program.report(made, seen), comparison, seen.outputs)
    known = reference_trace(module, subject.inputs)
    culprits = tuple(_culprits(report, comparison, known, subject))
    outputs = {name: np.asarray(one) for name, one in zip(module.outputs, seen.outputs.values(), strict=False)}
    dtypes = [one.dtype for judgement in report.judgements for one in judgement.outputs]
    allowed = LOST if subject.limit is None and report.budget.layers else subject.limit
    output, _ = output_error(known, outputs, dtypes, limit=allowed)
    if subject.limit is None and allowed is not None:
        output = replace(output, basis="what rounding to integers may cost")
    verdict, statement = report.verdict, report.headline
    if culprits:
        statement = culprits[0].statement
    elif not report.findings:  # of nodes that could not be judged, outputs within their limit say enough
        verdict = "pass" if output.verdict == "pass" else "unknown"
        statement = statement if verdict == "pass" else f"No node that was judged is wrong or parts, and {output}."
    why = f"{path.name} was inspected against {label}"
    return Diagnosis(runtime.name, "inspection", why, verdict, culprits, statement, output=output, subject=subject)


def _culprits(report: InspectionReport, comparison: PairedPrograms, known: Trace, subject: Subject) -> list[Culprit]:
    """Return for each operator that findings are at what they say; the file as a whole is none.

    What the file is to blame for is no known defect of the runtime.
    """
    taps, found = {tap.name: tap for tap in known.taps}, dict[str, Culprit]()
    for one in (each for each in report.findings if each.key):
        alone = Operator(one.key, one.operator, "", (), (0,), "float32")  # which has no counterpart in the module
        tap = taps.get(one.counterpart or comparison.place(one.key)) or Tap(alone, describe(np.zeros(0)))
        mechanisms = () if one.mechanism is None else (one.mechanism,)
        if before := found.get(tap.name):
            found[tap.name] = replace(before, mechanisms=(*before.mechanisms, *mechanisms))
            continue
        kind: Kind = "nonfinite" if one.kind == "nonfinite" else "divergence"
        named = one.mechanism is not None and one.kind == "structure"  # its evidence is the statement
        words = f"the file parts from the module at {one.key} ({one.operator})" if named else one.statement.rstrip(".")
        words += f"; blame: {one.blame}"
        culprit = Culprit(kind, "fail", subject.runtime.name, tap, (tap.name,), words)
        culprit = replace(culprit, mechanisms=mechanisms, reaches_output=True)
        judged = report.judgements[one.index] if 0 <= one.index < len(report.judgements) else None
        if judged is not None and judged.worst is not None and one.kind in ("wrong", "nonfinite"):
            local = judged.worst.error / judged.worst.peak if judged.worst.peak else None
            culprit = replace(culprit, local_error=local, inherited_error=judged.inherited, ratio=judged.worst.ratio)
        source = subject.candidate.specification.source_line(tap.name)
        found[tap.name] = placed(subject, culprit) if one.blame == "runtime" else replace(culprit, source=source)
    return list(found.values())


Method = Literal["auto", "tracing", "bisection"]
Precision = Literal["float32", "float64"]
EAGER: dict[Precision, str] = {"float32": "eager", "float64": "eager-float64"}


def diagnose(
    program: Any,
    inputs: Arrays,
    backend: str | Backend = "onnxruntime",
    reference: Any = None,
    method: Method = "auto",
    precision: Precision = "float32",
    folder: str | Path | None = None,
    limit: float | None = None,
    *,
    remedies: bool = False,
    artefact: str | Path | None = None,
    supply: Sequence[str] = (),
    dynamic_shapes: Mapping[str, Any] | None = None,
    at: Arrays | None = None,
) -> Diagnosis:
    """Export a program to a backend, run it there, and name the operators that are wrong by themselves.

    Where the runtime shows the results of its operators, each of them is recomputed in float64 on the values that went
    into it on that runtime. Where a delegate hides them, or too few could be captured to judge, the program is cut,
    compiled in parts, and halved. An output beyond its limit is never a pass: where every operator is right for its
    dtype, the operators are named whose rounding costs the output its precision.

    Parameters
    ----------
    program : torch.nn.Module, torch.export.ExportedProgram or Exported
        What is exported.
    inputs : mapping
        Name of a parameter of its forward -> example tensor.
    backend : str or Backend
        A key of `BACKENDS`, or a backend of your own.
    reference : torch.nn.Module, Exported, Trace, or pair of program and inputs, optional
        What is right, where `program` itself may be wrong; or what `reference_trace` returned. By default PyTorch
        running `program` itself. A pair: what `program` was rewritten from, with inputs of its own, which may be
        shorter; where every operator of the export is right, the two programs are compared.
    method : str
        ``auto``, ``tracing`` or ``bisection``.
    precision : str
        ``float32`` or ``float64``: what the reference is run in, against which the inherited error is measured. The
        local error is always measured against float64.
    folder : path, optional
        Where artefacts are saved; ``artefacts`` in the cache by default.
    limit : float, optional
        What is allowed of the error of every output, of its peak; by default derived from how far PyTorch's own float32
        is from float64: see `output_error`.
    remedies : bool
        Whether remedies are tried and measured where something is wrong: see `Diagnosis.try_remedies`.
    artefact : path, optional
        A file that was exported of `program`, inspected against it in place of an export: see `diagnosed_file`.
    supply : sequence of str
        Names of other forms of operators that are put in their place for a runtime that lacks them: see
        `refusal.supplied`. They stand in the artefact's record and in the diagnosis.
    dynamic_shapes : mapping, optional
        Name of an input -> its axes of open size, as `torch.export.export` takes them.
    at : mapping, optional
        Inputs of another length, for a program of open size: where nothing is wrong with `inputs`, it is diagnosed on
        these, too.

    Returns
    -------
    Diagnosis
        A program that the backend cannot export is a diagnosis with that `failure`.

    Raises
    ------
    InputError
        If the inputs do not fit, the backend is unknown or cannot run here, the method is none of these, or the
        artefact is damaged or of another module.
    """
    for value, known_values in ((method, get_args(Method)), (precision, EAGER)):
        if value not in known_values:
            raise InputError(f"'{value}' is not one of {', '.join(known_values)}.")
    runtime = running(named_backend(backend) if isinstance(backend, str) else backend)
    candidate = as_exported(program, inputs, runtime.name, dynamic_shapes)
    if isinstance(candidate, Failure):
        return failed_diagnosis(candidate)
    again = partial(diagnose, method=method, precision=precision, folder=folder, limit=limit)
    again = partial(again, remedies=remedies, artefact=artefact)
    if supply:
        healthy = candidate if reference is None else reference
        candidate, runtime = supplied(candidate, runtime, supply)
        return replace(again(candidate, inputs, runtime, healthy, at=at), supplied=tuple(supply))
    if at is not None:
        found = again(candidate, inputs, runtime, reference)
        if found.verdict != "pass":
            return found
        other = again(candidate, at, runtime, with_inputs(reference, inputs, at))
        sizes = ", ".join(f"{name} {tuple(value.shape)}" for name, value in at.items())
        return replace(other, statement=f"At {sizes}: {other.statement}")
    if limit is not None and not limit >= 0:
        raise InputError(f"The limit of the output's error is {limit}; give a share of its peak, 0 or more.")
    pair = other_program(reference)
    reference = None if pair else reference
    subject = Subject(runtime, candidate, candidate, inputs, folder, limit)
    if artefact is not None:
        if reference is not None and not isinstance(reference, Trace):
            subject = replace(subject, healthy=exported_reference(reference, inputs))
        found = diagnosed_file(subject, artefact)
        if not remedies or not found.culprits:
            return with_plain_state(found)
        found = replace(found, remedies=(in_its_place(EXPORTED_ANEW, runtime, candidate, inputs, found.output),))
        return _cured_as_well(found, subject)
    if pair is not None:
        healthy = exported_reference(*pair)
        original = Subject(runtime, healthy, healthy, pair[1], folder)
        culprit, output = parting(healthy, pair[1], candidate, inputs, runtime.name)
        # what rounding costs matters where it is more than what the rewriting does
        bearable = limit if limit is not None or output.verdict == "pass" else output.of_peak
        found = _examined(replace(subject, limit=bearable), reference, method, precision, remedies)
        right = found.output is not None and found.output.verdict == "pass"
        if found.verdict != "fail" or (right and culprit is not None):
            found = _rewritten(found, culprit, output, original)
            return _cured_as_well(found, original) if remedies else found
    found = _examined(subject, reference, method, precision, remedies)
    right = not found.culprits and (found.output is None or found.output.verdict == "pass")
    if not remedies or right or found.failure is not None:
        return with_plain_state(found)
    draws = not found.culprits and bool(drawing(candidate.specification))
    if draws or any(one.mechanism.name == "baked-in random numbers" for one in found.culprits):
        return replace(found, remedies=(with_noise_as_input(runtime, candidate, inputs, found.output),))
    return found if found.output is None else found.try_remedies()


def _cured_as_well(found: Diagnosis, end: Subject) -> Diagnosis:
    """Return the diagnosis with what cures the program that its one remedy ends at, where that is wrong itself."""
    if [one.verdict for one in found.remedies] != ["fail"]:
        return found
    (first,), further = found.remedies, list(found.remedies)
    for one in diagnose(end.candidate, end.inputs, end.runtime, folder=end.folder, remedies=True).remedies:
        name, statement = f"{first.name}, {one.name}", f"{first.statement} {one.statement}"
        further.append(replace(one, name=name, statement=statement, error_before=first.error_before))
    return replace(found, remedies=tuple(further))


def _examined(subject: Subject, reference: Any, method: Method, precision: Precision, remedies: bool) -> Diagnosis:
    runtime, candidate, inputs = subject.runtime, subject.candidate, subject.inputs
    name = getattr(runtime, "delegate", None)
    hidden = f"the operators that {name} computes are inside its delegate, which shows no results" if name else ""
    if method == "bisection" or (method == "auto" and hidden):
        known = None if reference is None else _right(candidate, inputs, reference, precision)[0]
        compared = _compared_with(candidate, known)
        subject = replace(subject, candidate=compared, healthy=compared)
        outputs = subject.outputs()
        if isinstance(outputs, Failure):
            return failed_diagnosis(outputs, subject, remedies)
        return bisected_diagnosis(subject, hidden if method == "auto" else "as requested", outputs)
    known, healthy = _right(candidate, inputs, reference, precision)
    subject = replace(subject, healthy=healthy, reference=known)
    found = investigate(candidate, inputs, runtime, known, subject.folder)
    if isinstance(found, Failure):
        return failed_diagnosis(found, subject, remedies)
    traced = traced_diagnosis(subject, found, "" if method == "auto" else "as requested")
    missing, probed = len(found.candidate.missing), found.probe.of_peak != 0
    draws = drawing(candidate.specification)
    if method == "auto" and traced.verdict == "unknown" and (missing or probed) and not draws:
        why = f"{missing} operators could not be captured by tracing, and none of the others is wrong"
        why = f"looking into the program changes what it gives ({found.probe})" if probed else why
        compared = _compared_with(candidate, None if reference is None else known)
        return bisected_diagnosis(replace(subject, candidate=compared), why, found.history.first, traced)
    return traced


def _rewritten(alone: Diagnosis, culprit: Culprit | None, output: OutputError, original: Subject) -> Diagnosis:
    """Return the diagnosis of a program beside what it was rewritten from, which it is further from than the runtime.

    What is wrong on the runtime itself comes after where the two part; its effect on the output is that on an output
    that is wrong without it, and says nothing.
    """
    if output.verdict == "pass":
        return replace(alone, output=output)
    others = tuple(replace(one, effect=None, alone=None) for one in alone.culprits)
    names = ", ".join(one.name for one in others)
    why = "every operator of the export that was judged is right by itself, and the output is not the reference's"
    if others:
        why = f"the errors of {names} on {original.runtime.name} do less to the output than the change of the program"
    cure = in_its_place(AS_THE_REFERENCE, original.runtime, original.candidate, original.inputs, output)
    changed = replace(alone, method="comparison", why=why, output=output, remedies=(cure,))
    if culprit is None:
        statement = f"The program and its reference part, and at which operator is not seen: {output}."
        return replace(changed, verdict="unknown", statement=statement)
    where, first = culprit.name, culprit.candidates[-1]  # of a part in another form
    since = "" if first == where else f", and {first} is the first operator whose result the reference does not have"
    statement = f"At {where} the program parts from its reference{since}: {culprit.channels}; {output}."
    return replace(changed, verdict="fail", culprits=(culprit, *others), statement=statement)


def _right(candidate: Exported, inputs: Arrays, reference: Any, precision: Precision) -> tuple[Trace, Exported]:
    if isinstance(reference, Trace):
        return reference, candidate
    healthy = candidate if reference is None else exported_reference(reference, inputs)
    return reference_trace(healthy, inputs, EAGER[precision]), healthy


def _compared_with(candidate: Exported, known: Trace | None) -> Exported:
    """Return `candidate` for bisection against the operators of the reference; both have to have the same ones."""
    if known is None or candidate.named_by is not None:
        return candidate
    meaning = known.meaning
    names = [operator.name for operator in candidate.specification.operators]
    if not isinstance(meaning, Specification) or [operator.name for operator in meaning.operators] != names:
        words = "The reference has other operators than the program, so that bisection cannot compare their parts"
        raise InputError(f"{words}; leave the reference out, or use a backend that shows its operators.")
    return replace(candidate, named_by=meaning)


FORM = "file.py:function or package.module:function"


def made_by(target: str) -> tuple[Any, Mapping[str, Any], tuple[Any, Mapping[str, Any]] | None]:
    """Call the function, and return the module, its inputs, and what the module was rewritten from.

    Parameters
    ----------
    target : str
        ``file.py:function`` or ``package.module:function``. The function takes no arguments and returns
        ``(torch.nn.Module, {name of a parameter of its forward: tensor})``, and as a third what the module was
        rewritten from, another such pair, if it was.

    Raises
    ------
    InputError
        If it cannot be imported or called, or returns something else.
    """
    import torch

    place, _, name = target.rpartition(":")
    if not place or not name:
        raise InputError(f"'{target}' names no function; give {FORM}.")
    function = getattr(_imported(place), name, None)
    if not callable(function):
        raise InputError(f"There is no function '{name}' in {place}; give {FORM}.")
    with refusing(f"{target} raised {{}}"):
        made = function()
    if not (isinstance(made, tuple) and len(made) in (2, 3) and isinstance(made[1], Mapping)):
        raise InputError(f"{target} has to return a module and a mapping of its inputs, not a {type(made).__name__}.")
    module, inputs, *rest = made
    if not isinstance(module, torch.nn.Module | Exported):
        raise InputError(f"The first of what {target} returns is a {type(module).__name__}, not a torch.nn.Module.")
    reference = other_program(rest[0]) if rest else None
    if rest and reference is None:
        raise InputError(f"The third of what {target} returns has to be a module and a mapping of its inputs.")
    return module, inputs, reference


def _imported(place: str) -> ModuleType:
    with refusing(f"{place} cannot be imported ({{}})."):
        if not place.endswith(".py"):
            return importlib.import_module(place)
        path = Path(place)
        if not path.is_file():
            raise InputError(f"There is no file {path}; give {FORM}.")
        module = ModuleType(path.stem)
        module.__file__ = str(path)
        sys.modules.setdefault(path.stem, module)  # dataclasses look their module up by name
        SourceFileLoader(path.stem, str(path)).exec_module(module)
        return module
