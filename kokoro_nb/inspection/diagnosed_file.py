"""A file diagnosed beside the module that it was exported of: its inspection against that module as a diagnosis."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from kokoro_nb.backends.signature import checked
from kokoro_nb.errors import InputError
from kokoro_nb.inspection.against_file import PairedPrograms
from kokoro_nb.inspection.blame import InspectionFinding
from kokoro_nb.inspection.compared_program import by_name, of_exported
from kokoro_nb.inspection.inspecting import with_findings
from kokoro_nb.inspection.inspection_report import InspectionReport
from kokoro_nb.inspection.references import opened
from kokoro_nb.locate.culprit import Culprit
from kokoro_nb.locate.diagnosis import Diagnosis
from kokoro_nb.locate.investigation import Subject, reference_trace
from kokoro_nb.locate.module_diagnosis import placed
from kokoro_nb.locate.output_error import LOST, output_error
from kokoro_nb.traces.operators import Operator
from kokoro_nb.traces.statistics import describe
from kokoro_nb.traces.trace import Tap, Trace


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
        raise InputError(f"{path} does not run on {runtime.name}, which {runs}; name the backend that runs it.")
    program, inputs = opened(path), checked(subject.inputs, module.inputs)
    other, label = f"{path} is no export of this module", f"the module {type(module.module).__name__}"
    candidate, reference = program.compared(), of_exported(module, label)
    mine, theirs = ((len(one.inputs), len(one.outputs)) for one in (reference, candidate))
    if mine != theirs:
        raise InputError(
            f"{other}: it has {theirs[0]} inputs and {theirs[1]} outputs, the module {mine[0]} and {mine[1]}."
        )
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
    culprits = tuple(placed(subject, one) for one in _culprits(report, comparison, known, runtime.name))
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


def _culprits(report: InspectionReport, comparison: PairedPrograms, known: Trace, runtime: str) -> list[Culprit]:
    """Return for each operator that findings are at what they say; the file as a whole is none."""
    taps, found = {tap.name: tap for tap in known.taps}, dict[str, Culprit]()
    for one in (each for each in report.findings if each.key):
        tap = taps.get(one.counterpart or comparison.place(one.key)) or _tap(one)
        mechanisms = () if one.mechanism is None else (one.mechanism,)
        if tap.name in found:
            before = found[tap.name]
            found[tap.name] = replace(before, mechanisms=(*before.mechanisms, *mechanisms))
            continue
        kind = "nonfinite" if one.kind == "nonfinite" else "divergence"
        named = one.mechanism is not None and one.kind == "structure"  # its evidence is the statement
        words = f"the file parts from the module at {one.key} ({one.operator})" if named else one.statement.rstrip(".")
        words += f"; blame: {one.blame}"
        about = {"channels": words, "mechanisms": mechanisms, "reaches_output": True, **_errors(report, one)}
        found[tap.name] = Culprit(kind, "fail", runtime, tap, (tap.name,), **about)  # type: ignore[arg-type]
    return list(found.values())


def _errors(report: InspectionReport, finding: InspectionFinding) -> Mapping[str, float | None]:
    """Return the figures of the node that a finding is at."""
    judged = report.judgements[finding.index] if 0 <= finding.index < len(report.judgements) else None
    if judged is None or judged.worst is None or finding.kind not in ("wrong", "nonfinite"):
        return {}
    local = judged.worst.error / judged.worst.peak if judged.worst.peak else None
    return {"local_error": local, "inherited_error": judged.inherited, "ratio": judged.worst.ratio}


def _tap(finding: InspectionFinding) -> Tap:
    """Return a node of the file that has no counterpart in the module."""
    empty = np.zeros(0, np.float32)
    return Tap(Operator(finding.key, finding.operator, "", (), (0,), "float32"), describe(empty), empty)
