"""The record of a diagnosis or an inspection: see `kokoro_nb.traces.record`, which says what it holds."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from kokoro_nb.backends.base import Failure
from kokoro_nb.backends.exported import state
from kokoro_nb.backends.signature import as_array
from kokoro_nb.cache_keys import files_digest
from kokoro_nb.inspection.inspection_report import InspectionReport
from kokoro_nb.locate.culprit import UNKNOWN, Mechanism
from kokoro_nb.locate.diagnosis import Diagnosis
from kokoro_nb.storage import digest
from kokoro_nb.traces.parity import of_peak, relative_difference
from kokoro_nb.traces.record import headed, sketched

Row = dict[str, Any]
NOT_SKETCHED: Row = {"dtype": "", "shape": [], "finite": None, "peak": None, "rms": None, "sha256": "", "sample": []}
LOG = 2000  # characters of what a tool printed before it failed
HIDDEN = "the runtime does not show what it gives"


def result_record(found: Diagnosis | InspectionReport, label: str = "", **about: Any) -> Row:
    """Return what was found as a record that another environment's can be compared with.

    Parameters
    ----------
    found : Diagnosis or InspectionReport
        Of a diagnosis with its tensors.
    label : str
        What was diagnosed; of a file its name.
    about
        What else is to stand in it.
    """
    return _inspected(found) if isinstance(found, InspectionReport) else _diagnosed(found, label, about)


def _diagnosed(found: Diagnosis, label: str, about: Mapping[str, Any]) -> Row:
    subject, seen = found.subject, found.investigation
    inputs = {} if subject is None else subject.inputs
    findings = [
        _finding(one, getattr(one.tap, "name", ""), getattr(one.tap, "op", ""), one.mechanism, figures=one.figures)
        for one in found.ranked
    ]
    names = ("verdict", "statement", "method", "why", "supplied")
    return headed(
        "diagnosis",
        **{name: getattr(found, name) for name in names},
        **{"next step": found.next_step, **about},
        subject={"label": label, "model": "" if subject is None else _weights(subject.healthy.module)},
        inputs=[sketched(as_array(name, value), name=name) for name, value in inputs.items()],
        runtime={"name": found.backend, "packages": getattr(subject and subject.runtime, "packages", ())},
        failure="" if found.failure is None else str(found.failure),
        log="" if found.failure is None else found.failure.log[-LOG:],
        history=seen.history.changes if seen else {},
        search=found.bisection.as_dict() if found.bisection else {},
        operators=list(_operators(found)),
        outputs=_outputs(found),
        findings=findings,
        remedies=[one.as_dict() for one in found.remedies],
    )


def _finding(one: Any, operator: str, op: str, mechanism: Mechanism | None, **more: Any) -> Row:
    what = mechanism or UNKNOWN
    about = {"mechanism": what.name, "evidence": str(what), "known defect": what.defect}
    about |= {"blame": getattr(one, "blame", "unknown"), "kind": one.kind, "statement": one.statement}
    return {"operator": operator, "op": op, **about, **more}


def _weights(module: Any) -> str:
    """Return the SHA-256 of the values of all parameters and buffers, whatever they are called."""
    each = (as_array(name, one.detach()) for name, (one, _) in state(module).items())
    return digest(*sorted(f"{one.dtype} {one.shape} {digest(one.tobytes())}" for one in each))


def _operators(found: Diagnosis) -> Iterator[Row]:
    """Yield a row for each operator of the program in the order of execution, judged or not."""
    seen, subject = found.investigation, found.subject
    judged = {} if seen is None else {one.operator.name: one for one in seen.errors}
    taps = {} if seen is None else {one.name: one.statistics for one in seen.candidate.taps}
    wrong = {one.tap.name: one for one in found.culprits if one.tap is not None}
    for operator in () if subject is None else subject.candidate.specification.operators:
        error, tap, culprit = judged.get(operator.name), taps.get(operator.name), wrong.get(operator.name)
        verdict = "fail" if culprit or (error and error.unexplained) else "pass" if error else "unknown"
        figures = (
            (error.ratio, error.of_peak) if error else (culprit.ratio, culprit.local_error) if culprit else (None,) * 2
        )
        measured = (tap.finite, tap.rms) if tap else (None, None)
        yield _operator(operator.name, operator.op, verdict, "" if error else HIDDEN, *figures, *measured)


def _operator(*values: Any) -> Row:
    keys = ("name", "op", "verdict", "reason", "error / rounding", "error (of peak)", "finite", "rms")
    return dict(zip(keys, values, strict=True))


def _outputs(found: Diagnosis) -> list[Row]:
    """Return a row for each output of the first call; limits are known of the one that is furthest beyond its own."""
    worst, seen, subject = found.output, found.investigation, found.subject
    if worst is None or subject is None:
        return []
    values: Any = {} if found.method == "inspection" else seen.history.first if seen else subject.outputs()
    rows = []
    for name in subject.candidate.outputs:
        given = None if isinstance(values, Failure) else values.get(name)
        right = seen.reference.outputs.get(name) if seen else None
        error = None if given is None or right is None else relative_difference(np.asarray(given), np.asarray(right))
        row: Row = {"name": name, "verdict": "pass" if worst.verdict == "pass" else "unknown", "limit (of peak)": None}
        row |= {"error (of peak)": error, **(NOT_SKETCHED if given is None else sketched(given))}
        if name == worst.output:
            row |= {"verdict": worst.verdict, "error (of peak)": worst.of_peak, "limit (of peak)": worst.limit}
        rows.append(row)
    return rows


def _inspected(report: InspectionReport) -> Row:
    operators = []
    for one in report.judgements:
        worst = one.worst
        figures = (worst.ratio, of_peak(worst.error, worst.peak), worst.finite, worst.rms) if worst else (None,) * 4
        operators.append(_operator(one.key, one.operator, one.verdict, one.reason, *figures))
    return headed(
        "diagnosis",
        subject={"label": report.path.name, "model": files_digest(report.path)},
        inputs=list(report.given),
        runtime={"name": report.runtime, "packages": report.runtime.split()[:1]},
        verdict=report.verdict,
        statement=report.headline,
        method="inspection",
        failure="",
        history={},
        operators=operators,
        outputs=[
            {
                "name": one.name,
                "verdict": "unknown",
                "error (of peak)": one.error,
                "limit (of peak)": None,
                **one.sketch,
            }
            for one in report.outputs
        ],
        findings=[_finding(one, one.key, one.operator, one.mechanism, proof=one.proof) for one in report.findings],
        remedies=[],
        notes=report.notes,
    )
