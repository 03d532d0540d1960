"""The record of a diagnosis or an inspection: see `kokoro_nb.traces.record`, which says what it holds."""

from collections.abc import Iterator
from typing import Any

from kokoro_nb.backends.exported import state
from kokoro_nb.backends.signature import as_array
from kokoro_nb.cache_keys import files_digest
from kokoro_nb.inspection.blame import InspectionFinding
from kokoro_nb.inspection.inspection_report import InspectionReport
from kokoro_nb.locate.culprit import UNKNOWN
from kokoro_nb.locate.diagnosis import Diagnosis
from kokoro_nb.storage import digest
from kokoro_nb.traces.parity import of_peak
from kokoro_nb.traces.record import headed, sketched

Row = dict[str, Any]
NOTHING: Row = {"failure": "", "history": {}, "remedies": []}
NO_FIGURES = (None,) * 4
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
    own = _of_file(found) if isinstance(found, InspectionReport) else _of_program(found, label)
    return headed("diagnosis/1", **{**NOTHING, "verdict": found.verdict, **own, **about})


def _of_file(report: InspectionReport) -> Row:
    operators = []
    for one in report.judgements:
        worst = one.worst
        figures = (worst.ratio, of_peak(worst.error, worst.peak), worst.finite, worst.rms) if worst else NO_FIGURES
        operators.append(_operator(one.key, one.operator, one.verdict, one.reason, *figures))
    no_limit = {"verdict": "unknown", "limit (of peak)": None}
    return {
        "statement": report.headline,
        "method": "inspection",
        "subject": {"label": report.path.name, "model": files_digest(report.path)},
        "runtime": {"name": report.runtime, "packages": report.runtime.split()[:1]},
        "inputs": report.given,
        "operators": operators,
        "outputs": [
            {"name": one.name, "error (of peak)": one.error, **no_limit, **one.sketch} for one in report.outputs
        ],
        "findings": [_finding(one) for one in report.findings],
    }


def _finding(one: InspectionFinding) -> Row:
    about = {"tap": one.key, "op": one.operator, "kind": one.kind, "statement": one.statement, "proof": one.proof}
    return {**about, "blame": one.blame, "mechanism": (one.mechanism or UNKNOWN).as_dict()}


def _of_program(found: Diagnosis, label: str) -> Row:
    subject, seen, failure = found.subject, found.investigation, found.failure
    inputs, row = {} if subject is None else subject.inputs, found.row()
    return row | {
        "supplied": found.supplied,
        "subject": {"label": label, "model": "" if subject is None else _weights(subject.healthy.module)},
        "runtime": {"name": found.backend, "packages": getattr(subject and subject.runtime, "packages", ())},
        "inputs": [sketched(as_array(name, value), name=name) for name, value in inputs.items()],
        "failure": str(failure or ""),
        "log": failure.log[-LOG:] if failure else "",
        "history": seen.history.changes if seen else {},
        "search": found.bisection.as_dict() if found.bisection else {},
        "operators": list(_operators(found)),
        "outputs": list(_outputs(found)),
        "findings": [{**one, "tap": one["tap"] or "", "blame": "unknown"} for one in row.pop("culprits")],
    }


def _operator(*values: Any) -> Row:
    keys = ("name", "op", "verdict", "reason", "error / rounding", "error (of peak)", "finite", "rms")
    return dict(zip(keys, values, strict=True))


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
        about, named = (operator.name, operator.op), wrong.get(operator.name)
        if operator.name in judged:
            one, tap = judged[operator.name], taps[operator.name]
            verdict = "fail" if named or one.unexplained else "pass"
            yield _operator(*about, verdict, "", one.ratio, one.of_peak, tap.finite, tap.rms)
        elif named:
            yield _operator(*about, "fail", "", named.ratio, named.local_error, None, None)
        else:
            yield _operator(*about, "unknown", HIDDEN, *NO_FIGURES)


def _outputs(found: Diagnosis) -> Iterator[Row]:
    """Yield a row for each output of the first call; limits are known of the one that is furthest beyond its own."""
    worst = found.output
    if worst is None:
        return
    for name, value in found.outputs.items():
        row: Row = {"verdict": "pass" if worst.verdict == "pass" else "unknown"}
        row |= {"error (of peak)": None, "limit (of peak)": None}
        if name == worst.output:
            row = {"verdict": worst.verdict, "error (of peak)": worst.of_peak, "limit (of peak)": worst.limit}
        yield sketched(value, name=name, **row)
