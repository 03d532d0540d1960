"""The page of an inspection: the answer first, then the findings, the outputs, the worst nodes, and all of them."""

from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kokoro_nb.inspection.float16_foresight import in_danger
from kokoro_nb.inspection.whole_file import OutputSummary
from kokoro_nb.markup import Fragment, line, number, page, table
from kokoro_nb.storage import atomic

if TYPE_CHECKING:
    from kokoro_nb.inspection.inspection_report import InspectionReport

SHOWN = 25  # nodes of the table of the worst
STYLE = """
.knb-answer { font-size: 1.15rem; }
.knb-finding { border-inline-start: .25rem solid #c62828; margin: 1rem 0; padding-inline-start: .8rem; }
.knb-finding ul { margin: .2rem 0; }
details > summary { cursor: pointer; margin: 1rem 0; }
"""


def write_page(report: "InspectionReport", path: Path) -> Path:
    """Write the page and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic(path) as draft:
        draft.write_text(page(f"Inspection of {report.path.name}", _parts(report)), encoding="utf-8")
    return path


def answer(report: "InspectionReport") -> Fragment:
    """Return what was found, and what was noticed besides."""
    parts = _answer(report)
    return Fragment("\n".join(part.html for part in parts), str(report), STYLE)


def _answer(report: "InspectionReport") -> list[Fragment]:
    parts = [line(report.verdict, report.headline)]
    parts += [_finding(report, index) for index in range(len(report.findings))]
    return parts + ([_list("Noticed", report.notes)] if report.notes else [])


def _parts(report: "InspectionReport") -> list[Fragment]:
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


def _finding(report: "InspectionReport", index: int) -> Fragment:
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
