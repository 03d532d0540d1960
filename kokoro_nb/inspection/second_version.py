"""A second version of the runtime, in another environment: what it shows of a file in which something is wrong here."""

import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.cache_keys import PACKAGE
from kokoro_nb.errors import InputError
from kokoro_nb.inspection.blame import InspectionFinding
from kokoro_nb.inspection.inspection_report import InspectionReport
from kokoro_nb.inspection.value_types import Arrays, Tell
from kokoro_nb.markup import number
from kokoro_nb.run_apart import run_apart
from kokoro_nb.traces.record import SAMPLE, read_record, sketches_apart

PATIENCE, WORD = 600.0, 20.0  # seconds for the whole of it, and after which a word says that it goes on
RUNTIMES = {".onnx": "onnxruntime", ".pte": "executorch", ".pt2": "torch"}  # all others are for Core ML
Row = Mapping[str, Any]


def second_runtime(python: str | Path, file: Path) -> str:
    """Return the runtime of a file beside an interpreter, with its version.

    Raises
    ------
    InputError
        If it is no interpreter that can be started, or has not that runtime.
    """
    from kokoro_nb.defects.environments import environment

    runtime, found = RUNTIMES.get(file.suffix, "coremltools"), environment(python).packages
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
        words = f"{label} does not show what goes through the node."
    elif row["verdict"] == "fail":
        times = number(row["error / rounding"])
        words = f"{label} does not give here what float64 does either: {times} times what rounding explains."
    else:
        blame, times = "runtime", number(row["error / rounding"])
        words = f"{label} gives here what float64 does ({times} times what rounding explains), and {report.runtime}"
        words += " does not."
    return replace(finding, blame=blame, proof=(*finding.proof, words))
