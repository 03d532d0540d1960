"""The result of localisation: the culprits of an export, what each does to the output, why, and what cures it.

A finding is written as a folder that reproduces it without this package: the one operator, its inputs, a script.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save

from kokoro_nb import markup
from kokoro_nb.backends.base import Failure
from kokoro_nb.backends.exported import Exported
from kokoro_nb.backends.segment import part
from kokoro_nb.backends.signature import as_array
from kokoro_nb.defects.catalogue import report_text, script, versions, write_shown
from kokoro_nb.defects.defect_case import FindingCase, PositionalProgram
from kokoro_nb.errors import InputError
from kokoro_nb.findings import Verdict
from kokoro_nb.locate.bisection import Bisection
from kokoro_nb.locate.card_facts import Fact, card_facts, facts_card
from kokoro_nb.locate.culprit import Culprit, known_defect
from kokoro_nb.locate.investigation import Investigation, Subject
from kokoro_nb.locate.output_error import OutputError, worst_output
from kokoro_nb.locate.remedies import Remedy, plans, tried
from kokoro_nb.storage import json_ready, write_json, write_text
from kokoro_nb.traces.trace import CONSTANT, INPUT, TRAINED_NORM, TRAINS, Trace

HEADINGS = {"fail": "is wrong", "pass": "is right", "unknown": "is not cleared", "skip": "was not run"}
_ERRORS = ("effect (of the output's error)", "local error (of peak)", "inherited error (of peak)")
FIGURES = (*_ERRORS, "local error / rounding")  # of the table of culprits, as `Culprit.as_dict` calls them


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """What was found out about one program on one backend.

    Attributes
    ----------
    backend : str
        Name of the backend.
    method, why : str
        ``tracing`` (every operator that the runtime shows is recomputed in float64 on its own inputs), ``bisection``
        (parts are compiled alone and halved), ``comparison`` (every operator is right, and the program is compared with
        the one that it was rewritten from), ``inspection`` (a file is compared with its module) or ``export`` (nothing
        could be run), and the reason for that choice.
    verdict : str
        ``fail``: an operator is wrong, or the export failed. ``pass``: none is wrong. ``unknown``: the output is wrong
        and no single operator is, or some operators could not be judged.
    culprits : tuple of Culprit
        Every operator that is wrong by itself, in the order of execution.
    statement : str
        The result in one sentence.
    failure : Failure or None
        Where the export failed, with the exact error.
    output : OutputError or None
        How far the whole output is off; None where nothing could be run.
    remedies : tuple of Remedy
        What was tried as a cure, with the error of the output before and after: see `try_remedies`.
    investigation : Investigation or None
        All measured figures of tracing.
    bisection : Bisection or None
        All steps of bisection.
    subject : Subject or None
        What was diagnosed: program, reference, inputs and runtime.
    outputs : mapping
        What the first call gave, by name; empty where nothing could be run, and for a file.
    supplied : tuple of str
        What this package changed in the program for a runtime that lacks it, by name.
    """

    backend: str
    method: str
    why: str
    verdict: Verdict
    culprits: tuple[Culprit, ...]
    statement: str
    failure: Failure | None = None
    output: OutputError | None = None
    remedies: tuple[Remedy, ...] = ()
    investigation: Investigation | None = field(default=None, repr=False)
    bisection: Bisection | None = field(default=None, repr=False)
    subject: Subject | None = field(default=None, repr=False)
    outputs: Mapping[str, np.ndarray] = field(default_factory=dict, repr=False)
    supplied: tuple[str, ...] = ()

    @property
    def first(self) -> Culprit | None:
        """The culprit that is executed first; None if no operator was named."""
        return self.culprits[0] if self.culprits else None

    @property
    def ranked(self) -> tuple[Culprit, ...]:
        """The culprits by what they do to the output, the largest effect first; those of unknown effect come last."""
        return tuple(sorted(self.culprits, key=_severity, reverse=True))

    @property
    def exit_status(self) -> int:
        """What the command ends with: 0 healthy, 1 what is wrong is named, 3 wrong or unknown, and not localised."""
        named = self.culprits or (self.failure is not None and self.failure.source)
        return 0 if self.verdict == "pass" else 1 if named else 3

    @property
    def excluded(self) -> tuple[str, ...]:
        """What is known not to be the cause, where what is wrong is not localised."""
        found = []
        if self.investigation is not None:
            taps, wrong = len(self.investigation.candidate.taps), len(self.investigation.faults)
            found.append(f"{taps - wrong} of {taps} captured operators are right to rounding")
            if not self.investigation.history.depends:
                found.append("the output does not depend on earlier calls")
            if self.investigation.probe.of_peak == 0:
                found.append("capturing operators changed no bit of the output")
        if self.bisection is not None:
            found.append(f"parts compiled alone: {self.statement}")
        return tuple(found)

    @property
    def next_step(self) -> str:
        """What to do next, where what is wrong is not localised; empty where it is."""
        if self.exit_status != 3:
            return ""
        cure = next((one for one in self.remedies if one.verdict == "pass"), None)
        if cure is not None:
            return f"apply what cures it ({cure.name}), and diagnose again"
        if self.failure is not None:
            return "export the parts of the module one by one, or with patches, until the one that fails is found"
        if self.method == "inspection":
            return "diagnose the module without the file, by a new export, or inspect the file against a right one"
        if self.bisection is None:
            return "compile parts of the program alone (method bisection), or give a reference with inputs of its own"
        return "run the same program on a backend that shows its operators, such as onnxruntime or executorch-portable"

    def without_tensors(self) -> "Diagnosis":
        """Return the diagnosis without what each operator gave, its `subject` as it is.

        See `Investigation.without_tensors`.
        """
        seen = self.investigation
        return self if seen is None else replace(self, investigation=seen.without_tensors())

    def try_remedies(self) -> "Diagnosis":
        """Return the diagnosis with remedies: patches, other forms and operators in float32, applied and measured.

        They are tried in turn on the same runtime until the output is within its limit.

        Raises
        ------
        InputError
            If the output is within its limit and no operator is named that could be cured, or nothing was run.
        """
        if self.subject is None or self.output is None or not (self.culprits or self.output.verdict != "pass"):
            raise InputError(f"There is no operator to cure: {self.statement}")
        return replace(self, remedies=tried(self.subject, plans(self.subject, self.ranked), self.output))

    def table(self) -> list[dict[str, Any]]:
        """Return a row for each culprit, the largest effect first, with units in the names of its columns."""
        rows = []
        for one in self.ranked:
            row = one.as_dict()
            place = {"executed": self.culprits.index(one) + 1, "operator": row["tap"], "op": row["op"]}
            figures = {"line": one.source, "wrong": one.channels, **{name: row[name] for name in FIGURES}}
            rows.append(place | figures | {"mechanism": one.mechanism.name, "evidence": str(one.mechanism)})
        return rows

    def row(self) -> dict[str, Any]:
        """Return what a card of it says, as plain values that JSON holds; the culprits with the largest effect first.

        ``count`` is the number of culprits, and ``known`` the known defect: its ``name``, ``title`` and ``threads``.
        """
        found = {name: getattr(self, name) for name in ("backend", "method", "why", "verdict", "statement", "excluded")}
        found |= {"output": self.output and self.output.as_dict(), "failure": self.failure and self.failure.as_dict()}
        found |= {"culprits": [one.as_dict() for one in self.ranked], "count": len(self.culprits)}
        found |= {"remedies": [one.as_dict() for one in self.remedies], "next step": self.next_step}
        return dict(json_ready({**found, "known": known_defect(self.failure, self.ranked)}))

    def save_html(self, path: str | Path) -> Path:
        """Write the diagnosis as one HTML file that needs nothing else, and return its path."""
        return write_text(path, _page(self))

    def save_bundle(self, folder: str | Path) -> Path:
        """Write the culprit of the largest effect as a folder that reproduces it without this package.

        See `write_finding_bundle`: it is run both ways before it is there.

        Raises
        ------
        InputError
            If no operator was named by tracing, the backend has no script of its own, or `folder` holds something else.
        """
        subject = self.subject
        if not self.culprits or subject is None:
            raise InputError(f"There is no operator to reproduce: {self.statement}")
        if self.method == "inspection":
            raise InputError("The fault is in the file; `kokoro-nb inspect FILE --out DIR` writes what shows it.")
        if self.failure is not None:
            raise InputError(f"Nothing was exported that could be run: {self.statement}")
        if subject.reference is None:
            hidden = f"{self.backend} shows no operator, so that the inputs of the wrong one are not known"
            raise InputError(f"{hidden}; diagnose the program on a backend that shows its operators.")
        return write_finding_bundle(self.ranked[0], subject.candidate, subject.healthy, subject.reference, folder)

    def __str__(self) -> str:
        return card(self, whole=True).text

    def _repr_html_(self) -> str:
        return card(self)._repr_html_() + (markup.table(self.table())._repr_html_() if self.culprits else "")


def _severity(one: Culprit) -> tuple[bool, float, float, float]:
    """Return what the culprits are ranked by: effect, else the error that it alone makes, else the local error."""
    known = one.effect is not None
    figures = (one.effect, one.alone, one.ratio)
    effect, alone, ratio = (np.inf if figure is None or np.isnan(figure) else figure for figure in figures)
    # where several share an error, none of them alone mends it, and to mend one may even add to it
    return known, float(np.maximum(effect, 0.0)) if known else 0.0, alone if known else 0.0, ratio


def _page(found: Diagnosis) -> str:
    """Return the whole page."""
    tables = {"Operators that are wrong, the largest effect on the output first": found.table()}
    tables["Remedies, as they were tried"] = [one.as_dict() for one in found.remedies]
    tables["The run that was traced"] = [found.investigation.as_dict()] if found.investigation else []
    tables["The search by bisection"] = [found.bisection.as_dict()] if found.bisection else []
    parts = [card(found), *(markup.table(rows, caption) for caption, rows in tables.items() if rows)]
    return markup.page(f"The export on {found.backend} {HEADINGS[found.verdict]}", parts)


def card(found: Diagnosis, whole: bool = False) -> markup.Fragment:
    """Return what somebody reads who has ten seconds; whole, it names every culprit and every remedy."""
    facts = [] if found.output is None else [Fact("output", str(found.output))]
    facts += card_facts(found.row(), whole)
    if found.subject is not None:
        program, modes = found.subject.candidate.specification, found.subject.candidate.training
        read = {one for operator in program.operators for one in operator.inputs}
        unread = [one for one in program.inputs if f"{INPUT}{one}" not in read]
        facts += [Fact("unread", f"No operator reads {', '.join(unread)}.")] if unread else []
        text = f"Training mode was on in {markup.listed([one or 'the module' for one in modes])}"
        facts += [Fact("mode", f"{text}; the export was made in evaluation mode, as after `eval()`.")] if modes else []
        trained = [f"{one.name} {TRAINS}." for one in program.operators if one.op.endswith(TRAINED_NORM)]
        facts += [Fact("mode", " ".join(trained))] if trained else []
    facts += [Fact("supplied by kokoro_nb", ", ".join(found.supplied))] if found.supplied else []
    facts.append(Fact("method", found.method, (found.why,)))
    return facts_card(markup.line(found.verdict, found.statement), facts)


RUNNERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "onnxruntime": ("onnxruntime", ("onnx", "onnxscript", "onnxruntime")),
    "executorch-xnnpack": ("xnnpack", ("executorch",)),
    **dict.fromkeys(("tvm", "tvm-unfused"), ("tvm", ("apache-tvm",))),
    **dict.fromkeys(("coreml-reference", "coreml-reference-float32"), ("coremltools", ("coremltools",))),
}
SCRIPT = "repro.py"
ALLOWED = 16  # how many times PyTorch's own rounding on these inputs is allowed: one draw of it may be a small one


def write_finding_bundle(
    culprit: Culprit, candidate: Exported, healthy: Exported, reference: Trace, folder: str | Path
) -> Path:
    """Cut the operator of a finding out of its program, and write what reproduces it, whole or not at all.

    The folder holds ``repro.py``, which needs torch, numpy, safetensors and the runtime, and exits with 1 while the
    runtime is wrong, 0 when it is right, and 2 where it cannot run; with ``--mended`` it runs PyTorch on the program as
    it should be. Both are run in processes of their own before the
    folder is there: the first has to fail, and the second to pass. The inputs are those of the operator in the
    reference, so that nothing before it has a part in it.

    Parameters
    ----------
    culprit : Culprit
        The operator.
    candidate, healthy : Exported
        The program that the backend was given, and the one that it should have computed; the same for a fault of the
        backend itself.
    reference : Trace
        What `locate.reference_trace` returned of the latter.
    folder : path
        A folder of that name is replaced.

    Raises
    ------
    InputError
        If the backend has no script of its own, the operator alone does not reproduce the finding or is as wrong in
        PyTorch, or `folder` cannot be written.
    """
    if culprit.backend not in RUNNERS:
        raise InputError(f"No script runs {culprit.backend} by itself; the backends are {', '.join(RUNNERS)}.")
    runner, packages = RUNNERS[culprit.backend]
    name, given = culprit.tap.name, [one for one in culprit.upstream if not one.startswith((INPUT, CONSTANT))]
    cut, healed = (part(program, given, [name]) for program in (candidate, healthy))
    captured = {one: reference.values[one] for one in given}
    right = np.asarray(reference.meaning.recompute(name, reference.inputs, captured).numpy(), order="C")
    fed = cut.inputs(reference.inputs, reference.values)
    tensors = {key: torch.from_numpy(np.asarray(as_array(key, value), order="C")) for key, value in fed.items()}
    limit = _limit(culprit, healed.exported.program, tensors, right)
    if not np.isfinite(limit):
        raise InputError(f"{name} alone is as wrong in PyTorch: its result is beyond its dtype, on any runtime.")
    title = f"{culprit.tap.op} is wrong on {culprit.backend}"
    record = {"packages": packages, "inputs": list(tensors), "limit": limit, "finding": culprit.as_dict()}

    def fill(draft: Path) -> None:
        code = script(title, runner, (PositionalProgram, FindingCase), "FindingCase(Path(__file__).parent)")
        (draft / SCRIPT).write_text(code, encoding="utf-8")
        (draft / "REPORT.md").write_text(_report(culprit, packages, limit, title), encoding="utf-8")
        for file, one in (("program.pt2", cut), ("right.pt2", healed)):
            torch.export.save(one.exported.program, draft / file)
        (draft / "values.safetensors").write_bytes(save({**tensors, "right result": torch.from_numpy(right)}))
        write_json(draft / "finding.json", record)

    alone = f"{name} alone, on PyTorch's inputs, is right on {culprit.backend}"
    alone += ": the error needs the operators around it, so that there is no bundle of this operator."
    return write_shown(folder, SCRIPT, fill, {"": 1, "--mended": 0}, alone)


def _limit(culprit: Culprit, program: Any, tensors: Mapping[str, torch.Tensor], right: np.ndarray) -> float:
    """Return what rounding explains of the error, of the peak: of the finding, and of PyTorch on these inputs."""
    case = PositionalProgram(program)
    with torch.no_grad():
        own = worst_output({"": right}, {"": case(*tensors.values()).numpy()}).of_peak
    dtype = np.dtype(culprit.tap.operator.dtype)
    explained = float(np.finfo(dtype).eps) if dtype.kind == "f" else 0.0
    error, ratio = culprit.local_error, culprit.ratio
    if error and ratio and np.isfinite([error, ratio]).all():
        explained = error / ratio
    return float(np.max([explained, ALLOWED * own]))


def _report(culprit: Culprit, packages: tuple[str, ...], limit: float, title: str) -> str:
    """Return the bug report, in Markdown."""
    expected = f"Expected is the operator in float64 on the same inputs, to {limit:.3g} of the peak"
    allowed = f"what rounding explains, and {ALLOWED} times what PyTorch itself is off on them"
    seen = "; ".join((*culprit.figures[:1], culprit.channels))
    sections = {
        "Expected and actual": [f"{expected}: {allowed}. Seen in the whole model: {seen}."],
        "What may be the cause": ["\n".join(f"- {one}" for one in culprit.mechanisms)] if culprit.mechanisms else [],
        "How to run it": [
            f"    python {SCRIPT}\n    python {SCRIPT} --mended",
            "The first exits with 1 while the runtime is wrong and with 0 when it is right; the second runs PyTorch.",
        ],
    }
    return report_text(title, culprit.statement, versions((*packages, "torch", "numpy")), sections)
