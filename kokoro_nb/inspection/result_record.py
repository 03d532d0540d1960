"""The record of a diagnosis or an inspection, and the record of the same file in another environment, compared."""

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.backends.exported import state
from kokoro_nb.backends.signature import as_array
from kokoro_nb.cache_keys import PACKAGE, files_digest
from kokoro_nb.errors import InputError
from kokoro_nb.inspection.inspection_report import InspectionReport
from kokoro_nb.inspection.judged_run import InspectionFinding
from kokoro_nb.inspection.value_types import Arrays, Tell
from kokoro_nb.locate.culprit import UNKNOWN
from kokoro_nb.locate.diagnosis import Diagnosis
from kokoro_nb.markup import number
from kokoro_nb.run_apart import installed, run_apart
from kokoro_nb.storage import digest
from kokoro_nb.traces.record import SAMPLE, headed, read_record, sketched, sketches_apart
from kokoro_nb.traces.statistics import of_peak

Row = dict[str, Any]
NOTHING: Row = {"failure": "", "history": {}, "remedies": []}
NO_FIGURES = (None,) * 4


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
        "log": failure.log[-2000:] if failure else "",  # what the tool printed before it failed
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
            yield _operator(*about, "unknown", "the runtime does not show its result", *NO_FIGURES)


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


PATIENCE, WORD = 600.0, 20.0  # seconds for the whole of it, and after which a word says that it goes on
RUNTIMES = {".onnx": "onnxruntime", ".pte": "executorch", ".pt2": "torch"}  # all others are for Core ML


def second_runtime(python: str | Path, file: Path) -> str:
    """Return the runtime of a file beside an interpreter, with its version.

    Raises
    ------
    InputError
        If it is no interpreter that can be started, or has not that runtime.
    """
    runtime, found = RUNTIMES.get(file.suffix, "coremltools"), installed(python)
    version = next((found[name] for name in sorted(found) if name.split("-")[0] == runtime), None)
    if version is None:
        raise InputError(f"{python} has no {runtime}; give bin/python of an environment that has one.")
    return f"{runtime} {version}"


def second_opinion(
    report: InspectionReport, python: str | Path, label: str, inputs: Arrays, tell: Tell = str
) -> InspectionReport:
    """Return a report with what another version of the runtime shows; where that is right, the one here is to blame.

    Raises
    ------
    InputError
        If the environment lacks what this package needs.
    """
    record = _record(report.path, str(python), label, inputs, tell)
    if isinstance(record, str):
        return replace(report, notes=(*report.notes, record))
    findings = tuple(_judged(report, one, record, label) for one in report.findings)
    outputs, notes = {row["name"]: row for row in record["outputs"]}, []
    for one in (each for each in report.outputs if each.name in outputs):
        row, size = outputs[one.name], int(np.prod(one.shape))
        apart = sketches_apart(one.sketch, row)
        far = "" if row["error (of peak)"] is None else f", {number(row['error (of peak)'])} of float64"
        seen = f" at {SAMPLE} of {size:,} elements" if apart and size > SAMPLE else ""
        words = f"{label} gives the output '{one.name}' within {number(apart)} of the peak of that of"
        notes.append(f"{words} {report.runtime}{seen}{far}.")
    return replace(report, findings=findings, notes=(*report.notes, *notes))


def _record(file: Path, python: str, label: str, inputs: Arrays, tell: Tell) -> Row | str:
    """Inspect a file there, by this package as it is here, and return its record, or why the file has none."""
    with tempfile.TemporaryDirectory() as room:
        Path(room, "kokoro_nb").symlink_to(PACKAGE)  # which Python finds in the folder that it is started in
        np.savez(Path(room, "inputs.npz"), **dict(inputs))  # type: ignore[arg-type]  # a name is no option here
        about = ["-m", "kokoro_nb", "inspect", str(file.absolute())]
        about += ["--inputs", "inputs.npz", "--json", "record.json"]
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        with ThreadPoolExecutor(1) as pool:
            place = Path(shutil.which(python) or python).absolute()
            job = pool.submit(run_apart, about, place, PATIENCE, room, kept)
            while not wait([job], WORD).done:
                tell(f"{label} inspects it")
        done = job.result()
        missing = re.search(r"No module named '?(\w+)", done.stderr)
        if missing:
            raise InputError(f"{python} has no {missing[1]}, which kokoro_nb needs there; install it there.")
        if done.status not in (0, 1):
            how = done.last_line[:300] if done.status is not None else f"it does not end within {PATIENCE:g} s."
            return f"{label} in {python} does not run the file: {how}"
        return read_record(Path(room, "record.json"))


def _judged(report: InspectionReport, finding: InspectionFinding, record: Row, label: str) -> InspectionFinding:
    """Return a finding with what the other version shows of the same operator, or of the same kind in the whole."""
    blame, row = finding.blame, next((row for row in record["operators"] if row["name"] == finding.key), None)
    if not (0 <= finding.index < len(report.judgements) and report.judgements[finding.index].verdict == "fail"):
        there = any(one["kind"] == finding.kind for one in record["findings"])
        words = f"{label} shows {'the same kind of fault' if there else 'nothing of that kind'}."
    elif row is None or row["error / rounding"] is None:
        words = f"{label} does not show the values of the node."
    elif row["verdict"] == "fail":
        times = number(row["error / rounding"])
        words = f"{label} does not give here what float64 does either: {times} times the rounding-error bound."
    else:
        blame, times = "runtime", number(row["error / rounding"])
        words = f"{label} gives here what float64 does ({times} times the rounding-error bound), and {report.runtime}"
        words += " does not."
    return replace(finding, blame=blame, proof=(*finding.proof, words))
