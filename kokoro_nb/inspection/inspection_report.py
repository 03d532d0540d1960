"""The report of an inspection, and its page: the answer first, then findings, outputs, the worst nodes, all nodes."""

from collections.abc import Iterable
from html import escape
from pathlib import Path

import numpy as np

from kokoro_nb.inspection.float16_foresight import in_danger
from kokoro_nb.inspection.inspection_facts import InspectionFacts
from kokoro_nb.inspection.viewer_overlay import write_overlay
from kokoro_nb.inspection.whole_file import OutputSummary
from kokoro_nb.markup import Fragment, line, number, page, table
from kokoro_nb.storage import write_text

SHOWN = 25  # nodes of the table of the worst
STYLE = """
.knb-answer { font-size: 1.15rem; }
.knb-finding { border-inline-start: .25rem solid #c62828; margin: 1rem 0; padding-inline-start: .8rem; }
.knb-finding ul { margin: .2rem 0; }
details > summary { cursor: pointer; margin: 1rem 0; }
"""


class InspectionReport(InspectionFacts):
    """What was found in a file, and the forms in which it is handed on."""

    def page(self, path: str | Path) -> Path:
        """Write the report as one HTML page that loads nothing from elsewhere; return its path."""
        return write_text(path, page(f"Inspection of {self.path.name}", _parts(self)))

    def overlay(self, folder: str | Path) -> tuple[Path, ...]:
        """Write node data for Model Explorer and an attachment for Netron; return their paths."""
        return write_overlay(self, Path(folder))

    def _repr_html_(self) -> str:
        """Return what was found, and what was noticed besides, for a notebook to show."""
        parts = _answer(self)
        return Fragment("\n".join(part.html for part in parts), str(self), STYLE)._repr_html_()


def _answer(report: InspectionFacts) -> list[Fragment]:
    parts = [line(report.verdict, report.headline)]
    parts += [_finding(report, index) for index in range(len(report.findings))]
    return parts + ([_list("Noticed", report.notes)] if report.notes else [])


def _parts(report: InspectionFacts) -> list[Fragment]:
    parts = _answer(report)
    parts.append(table([_output(one) for one in report.outputs], "Outputs"))
    if report.checks:
        rows = [{"heard": one.name, "verdict": one.verdict, "what": str(one)} for one in report.checks]
        parts.append(table(rows, "What is heard of the difference"))
    parts.append(_list("Inputs", [f"{name}: {how}" for name, how in report.inputs.items()]))
    parts.append(table([one.row() for one in report.worst(SHOWN)], f"The {SHOWN} nodes furthest from their definition"))
    if report.foresight:
        rows = [one.row() for one in in_danger(report.foresight, SHOWN)]
        parts.append(table(rows, "What float16 would do to this file: the nodes that it would harm most"))
    if report.budget.layers:
        rows = [one.row() for one in report.budget.noisiest]
        parts.append(table(rows, "Quantised layers, the noisiest first: the result over each part of its noise"))
    if report.unjudged:
        rows = [{"node": one.key, "operator": one.operator, "reason": one.reason} for one in report.unjudged]
        parts.append(table(rows, "Nodes that could not be judged"))
    every = report.table()
    summary = f"All {len(report.judgements):,} nodes"
    parts.append(Fragment(f"<details><summary>{summary}</summary>{every.html}</details>", every.text, STYLE))
    return parts


def _finding(report: InspectionFacts, index: int) -> Fragment:
    finding = report.findings[index]
    proof = "".join(f"<li>{escape(one)}</li>" for one in finding.proof)
    html = (
        f'<section class="knb knb-finding"><p><strong>Blame: {escape(finding.blame)}.</strong> '
        f"{escape(finding.statement)}</p><ul>{proof}</ul></section>"
    )
    return Fragment(html, finding.statement, STYLE)


def _list(title: str, items: Iterable[str]) -> Fragment:
    texts = list(items)
    html = "".join(f"<li>{escape(text)}</li>" for text in texts)
    return Fragment(f'<div class="knb"><p><strong>{title}</strong></p><ul>{html}</ul></div>', "\n".join(texts))


def _output(one: OutputSummary) -> dict[str, object]:
    shape = "x".join(map(str, one.shape))
    snr = one.snr
    return {
        "output": one.name,
        "type": one.dtype,
        "shape": shape,
        "finite": f"{one.finite:.2%}",
        "error against float64 (of peak)": one.error,
        "signal over that error (dB)": "no error" if snr is not None and np.isinf(snr) else snr,
        "changed by optimisation (of peak)": one.optimised,
        "by two threads (of peak)": one.threads,
        "second call": {True: "same bits", False: "differs", None: "not compared"}[one.again],
        "drawn (of variance)": "" if one.drawn is None else number(one.drawn),
    }
