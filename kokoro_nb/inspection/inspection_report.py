"""The report of an inspection, its page, and its record, compared with the record of another environment.

The page has the answer first, then findings, outputs, the worst nodes, all nodes. A diagnosis has a record, too.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.backends.exported import state
from kokoro_nb.backends.signature import as_array
from kokoro_nb.cache_keys import PACKAGE, files_digest
from kokoro_nb.errors import InputError
from kokoro_nb.findings import Verdict
from kokoro_nb.inspection.float16_foresight import HalfPrecisionNode, in_danger
from kokoro_nb.inspection.judged_run import InspectionFinding
from kokoro_nb.inspection.mended_file import MendedFile
from kokoro_nb.inspection.node_judgement import NodeJudgement
from kokoro_nb.inspection.quantisation_budget import QuantisationBudget
from kokoro_nb.inspection.value_types import Arrays, Tell
from kokoro_nb.inspection.whole_file import OutputSummary
from kokoro_nb.locate.card_facts import Fact, facts_card
from kokoro_nb.locate.culprit import UNKNOWN
from kokoro_nb.locate.diagnosis import Diagnosis
from kokoro_nb.markup import Fragment, line, listed, number, page, table
from kokoro_nb.run_apart import installed, run_apart
from kokoro_nb.storage import digest, write_text
from kokoro_nb.traces.record import SAMPLE, headed, read_record, sketched, sketches_apart
from kokoro_nb.traces.statistics import of_peak

SHOWN = 25  # nodes of the table of the worst


@dataclass(frozen=True)
class InspectionReport:
    """What was found in a file.

    Attributes
    ----------
    path : pathlib.Path
        The file.
    runtime : str
        What it was run on, with its version.
    findings : tuple of InspectionFinding
        What is wrong, in the order of execution; then what concerns the file as a whole.
    notes : tuple of str
        What was noticed and is no fault, or could not be decided.
    judgements : tuple of NodeJudgement
        Each node in the order of execution.
    outputs : tuple of OutputSummary
        The outputs of the file.
    inputs : dict of str to str
        How each input was made.
    nodes : int
        How many the file has; fewer judgements than that if the time was up.
    scripts : tuple of pathlib.Path
        A script for each finding at a node, as far as they were written.
    foresight : tuple of HalfPrecisionNode
        What float16 would do to each node of a float32 file.
    budget : QuantisationBudget
        The noise of the layers that are quantised.
    mended : MendedFile or None
        What the mended file was made by, if one was written.
    given : tuple of mapping
        What a record holds of each input: see `kokoro_nb.traces.record.sketched`. Empty where it was not run.
    """

    path: Path
    runtime: str
    findings: tuple[InspectionFinding, ...]
    notes: tuple[str, ...]
    judgements: tuple[NodeJudgement, ...]
    outputs: tuple[OutputSummary, ...]
    inputs: Mapping[str, str]
    nodes: int
    scripts: tuple[Path, ...] = ()
    foresight: tuple[HalfPrecisionNode, ...] = ()
    budget: QuantisationBudget = field(default_factory=QuantisationBudget)
    mended: MendedFile | None = None
    given: tuple[Mapping[str, object], ...] = field(default=(), repr=False)

    @property
    def verdict(self) -> Verdict:
        """``fail`` if anything is wrong, ``unknown`` if nodes could not be judged, ``pass`` otherwise."""
        if self.findings:
            return "fail"
        return "unknown" if self.unjudged or len(self.judgements) < self.nodes else "pass"

    @property
    def first(self) -> InspectionFinding | None:
        """The first finding in the order of execution, or None."""
        return self.findings[0] if self.findings else None

    @property
    def unjudged(self) -> tuple[NodeJudgement, ...]:
        """The nodes that could not be judged, without those that draw at random."""
        return tuple(j for j in self.judgements if j.verdict == "unknown" and j.reason != "draws at random")

    def worst(self, n: int = 10) -> tuple[NodeJudgement, ...]:
        """Return the `n` nodes that are furthest off, as multiples of the rounding-error bound."""
        judged = [judgement for judgement in self.judgements if judgement.worst is not None]
        return tuple(sorted(judged, key=lambda one: 0.0 if one.kept_wide else -one.size)[:n])

    def table(self) -> Fragment:
        """Return a row for each node."""
        return table(_rows(self.judgements), "Every node in the order of execution")

    @property
    def card(self) -> Fragment:
        """What was found and noticed, what was not judged, and the inputs; printed, the report is its text."""
        facts = [Fact(f"blame: {one.blame}", one.statement, one.proof) for one in self.findings]
        facts += [Fact("noticed", note) for note in self.notes]
        facts += [Fact("not judged", one) for one in _grouped(self.unjudged)]
        facts += [Fact(f"input {name}", how) for name, how in self.inputs.items()]
        return facts_card(line(self.verdict, f"{self.path.name}: {self.headline}"), facts)

    def __str__(self) -> str:
        return self.card.text

    def _repr_html_(self) -> str:
        return self.card._repr_html_()

    @property
    def headline(self) -> str:
        """What was found in one sentence."""
        judged = sum(judgement.verdict != "unknown" for judgement in self.judgements)
        seen = f"{judged:,} of {self.nodes:,} nodes judged on {self.runtime}"
        if self.first is None:
            limits = "" if self.verdict == "pass" else " in what could be judged"
            return f"nothing wrong was found{limits}; {seen}."
        count = len(self.findings)
        more = f" {count - 1} more {'thing is' if count == 2 else 'things are'} wrong." if count > 1 else ""
        return f"{self.first.statement}{more} Blame: {self.first.blame}; {seen}."

    def page(self, path: str | Path) -> Path:
        """Write the report as one HTML page that loads nothing from elsewhere; return its path."""
        return write_text(path, page(f"Inspection of {self.path.name}", _parts(self)))


def _parts(report: InspectionReport) -> list[Fragment]:
    danger = in_danger(report.foresight, SHOWN)
    unjudged = [{"node": one.key, "operator": one.operator, "reason": one.reason} for one in report.unjudged]
    tables = {
        "Outputs": [_output(one) for one in report.outputs],
        f"The {SHOWN} nodes furthest from their definition": _rows(report.worst(SHOWN)),
        "What float16 would do to this file: the nodes that it would harm most": _rows(danger),
        "Quantised layers, the noisiest first: the result over its noise": _rows(report.budget.noisiest),
        "Nodes that could not be judged": unjudged,
    }
    every = report.table()
    html = f"<details><summary>All {len(report.judgements):,} nodes</summary>{every.html}</details>"
    return [report.card, *(table(rows, name) for name, rows in tables.items() if rows), Fragment(html, every.text)]


def _rows(several: Iterable[Any]) -> list[dict[str, Any]]:
    return [one.row() for one in several]


def _output(one: OutputSummary) -> dict[str, object]:
    snr = one.snr
    return {
        "output": one.name,
        "type": one.dtype,
        "shape": "x".join(map(str, one.shape)),
        "finite": f"{one.finite:.2%}",
        "error against float64 (of peak)": one.error,
        "signal over that error (dB)": "no error" if snr is not None and np.isinf(snr) else snr,
        "changed by optimisation (of peak)": one.optimised,
        "by two threads (of peak)": one.threads,
        "second call": {True: "same bits", False: "differs", None: "not compared"}[one.again],
    }


def _grouped(unjudged: Sequence[NodeJudgement]) -> list[str]:
    """Return each reason once, with the nodes that it holds for."""
    reasons = dict.fromkeys(one.reason for one in unjudged)
    return [f"{listed(str(one) for one in unjudged if one.reason == reason)}: {reason}" for reason in reasons]


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
    no_limit = {"verdict": "unknown", "limit (of peak)": None}
    outputs = [{"name": one.name, "error (of peak)": one.error, **no_limit, **one.sketch} for one in report.outputs]
    return {
        "statement": report.headline,
        "method": "inspection",
        "subject": {"label": report.path.name, "model": files_digest(report.path)},
        "runtime": {"name": report.runtime, "packages": report.runtime.split()[:1]},
        "inputs": report.given,
        "operators": [_node(one) for one in report.judgements],
        "outputs": outputs,
        "findings": [_finding(one) for one in report.findings],
    }


def _node(one: NodeJudgement) -> Row:
    worst = one.worst
    figures = (worst.ratio, of_peak(worst.error, worst.peak), worst.finite, worst.rms) if worst else NO_FIGURES
    return _operator(one.key, one.operator, one.verdict, one.reason, *figures)


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
    wrong = {one.name: one for one in found.culprits}
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
    if (worst := found.output) is None:
        return
    for name, value in found.outputs.items():
        known = name == worst.output
        row: Row = {"verdict": worst.verdict if known or worst.verdict == "pass" else "unknown"}
        row |= {"error (of peak)": worst.of_peak if known else None, "limit (of peak)": worst.limit if known else None}
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
        about = ["-m", "kokoro_nb", "inspect", str(file.absolute()), "--inputs", "inputs.npz", "--json", "record.json"]
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        with ThreadPoolExecutor(1) as pool:
            job = pool.submit(run_apart, about, Path(shutil.which(python) or python).absolute(), PATIENCE, room, kept)
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
