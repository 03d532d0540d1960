"""The report of an inspection, and its page: the answer first, then findings, outputs, the worst nodes, all nodes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.findings import Verdict
from kokoro_nb.inspection.float16_foresight import HalfPrecisionNode, in_danger
from kokoro_nb.inspection.judged_run import InspectionFinding
from kokoro_nb.inspection.mended_file import MendedFile
from kokoro_nb.inspection.node_judgement import NodeJudgement
from kokoro_nb.inspection.quantisation_budget import QuantisationBudget
from kokoro_nb.inspection.whole_file import OutputSummary
from kokoro_nb.locate.card_facts import Fact, facts_card
from kokoro_nb.markup import Fragment, line, page, table
from kokoro_nb.storage import write_text

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
    tables = {
        "Outputs": [_output(one) for one in report.outputs],
        f"The {SHOWN} nodes furthest from their definition": _rows(report.worst(SHOWN)),
        "What float16 would do to this file: the nodes that it would harm most": _rows(
            in_danger(report.foresight, SHOWN)
        ),
        "Quantised layers, the noisiest first: the result over its noise": _rows(report.budget.noisiest),
        "Nodes that could not be judged": [
            {"node": one.key, "operator": one.operator, "reason": one.reason} for one in report.unjudged
        ],
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


def _grouped(unjudged: Iterable[NodeJudgement]) -> list[str]:
    """Return each reason once, with the nodes that it holds for."""
    nodes: dict[str, list[str]] = {}
    for one in unjudged:
        nodes.setdefault(one.reason, []).append(str(one))
    return [
        f"{', '.join(names[:3])}{f' and {len(names) - 3:,} more' if len(names) > 3 else ''}: {reason}"
        for reason, names in nodes.items()
    ]
