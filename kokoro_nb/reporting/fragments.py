"""Pieces of HTML that a notebook shows and the report shows again: figures, chips, tables, the verdict board."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

from kokoro_nb.numerics.findings import Finding, Verdict

ORDER: tuple[Verdict, ...] = ("fail", "unknown", "skip", "pass")  # as a reader wants to see them
SIGNS: Mapping[str, str] = {"<=": "≤ ", "<": "< ", ">=": "≥ ", ">": "> ", "==": "= ", "": ""}
WORDS: Mapping[Verdict, str] = {"fail": "failed", "unknown": "unknown", "skip": "skipped", "pass": "passed"}


@cache
def resource(name: str) -> str:
    """Return the text of a style sheet, template or script that lies beside this module."""
    return files("kokoro_nb.reporting").joinpath(name).read_text(encoding="utf-8")


@dataclass(frozen=True)
class Fragment:
    """A piece of HTML with the plain text that stands for it where HTML cannot be shown."""

    html: str
    text: str

    def _repr_html_(self) -> str:
        return f"<style>{resource('fragments.css')}</style>{self.html}"

    def __repr__(self) -> str:
        return self.text


def number(value: Any) -> str:
    """Return a figure as a reader wants it: four significant digits, thousands apart, NaN and infinity by name.

    >>> number(0.99812), number(6.96e-7), number(-52013.0), number(float("nan")), number(24000)
    ('0.9981', '6.96e-7', '-52,013', 'NaN', '24,000')
    """
    value = float(value)
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else f"{'-' if value < 0 else ''}∞"
    if value == int(value) and abs(value) < 1e9:
        return f"{int(value):,}"
    if 1e-3 <= abs(value) < 1e6:
        return f"{value:.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
    mantissa, exponent = f"{value:.3e}".split("e")
    return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"


def chip(verdict: str) -> str:
    """Return the small coloured label of a verdict; the word carries the meaning, the colour repeats it."""
    return f'<span class="knb-chip knb-{escape(verdict)}">{escape(verdict)}</span>'


def tally(findings: Sequence[Finding]) -> str:
    """Return the verdicts counted, in words.

    >>> tally([Finding("finite", "pass", "All finite.", "seeded")])
    '1 check: 1 passed'
    """
    counts = Counter(finding.verdict for finding in findings)
    parts = [f"{counts[verdict]} {WORDS[verdict]}" for verdict in ORDER if counts[verdict]]
    return f"{len(findings)} check{'' if len(findings) == 1 else 's'}: {', '.join(parts) or 'none made'}"


def overall(findings: Sequence[Finding], completed: bool = True) -> str:
    """Return one verdict for many: failed if anything did or the notebook stopped; nothing measured is no pass."""
    verdicts = {finding.verdict for finding in findings}
    if not completed or "fail" in verdicts:
        return "fail"
    if "unknown" in verdicts or not verdicts:
        return "unknown"
    return "pass" if "pass" in verdicts else "skip"


def limit(finding: Finding) -> str:
    """Return the limit and how the figure has to stand to it."""
    return "" if finding.limit is None else f"{SIGNS[finding.relation]}{number(finding.limit)}"


def verdict_line(finding: Finding) -> Fragment:
    """Return one finding as a line: what a notebook shows below the cell that checked it."""
    held = f" {limit(finding)}" if finding.verdict == "pass" else ""
    figure = "" if finding.value is None else f"{number(finding.value)}{held} {finding.unit}".strip()
    more = [part for part in (finding.backend, figure, finding.reason) if part]
    notes = "".join(f' <span class="knb-note">{escape(part)}</span>' for part in more)
    html = f'<p class="knb knb-line">{chip(finding.verdict)} {escape(finding.statement)}{notes}</p>'
    return Fragment(html, " · ".join([f"{finding.verdict.upper()}: {finding.statement}", *more]))


def board(findings: Sequence[Finding], page: str | None = None) -> Fragment:
    """Return the verdict board: failed first, each with statement, figure, limit, backend, weights and reason.

    Parameters
    ----------
    findings : sequence of Finding
        In the order in which they were made.
    page : str, optional
        Address of the page whose own board has these rows: each statement then links there. Without it each row
        carries the anchor ``finding-<n>`` itself.
    """
    if not findings:
        text = "No check has been recorded: nothing is known."
        return Fragment(f'<p class="knb knb-line">{chip("unknown")} {text}</p>', text)
    labels = list(dict.fromkeys(finding.weights for finding in findings))
    backends = any(finding.backend for finding in findings)
    heads = ["Verdict", "Statement", *(["Backend"] if backends else []), "Figure", "Limit", "Unit"]
    heads += ["Weights"] if len(labels) > 1 else []
    ordered = sorted(enumerate(findings, 1), key=lambda item: ORDER.index(item[1].verdict))
    rows = "".join(_row(index, finding, backends, len(labels) > 1, page) for index, finding in ordered)
    head = "".join(
        f'<th scope="col"{" class=knb-number" if name in ("Figure", "Limit") else ""}>{name}</th>' for name in heads
    )
    caption = "" if len(labels) > 1 else f"<caption>Weights: {escape(labels[0])}</caption>"
    table = f'<table class="knb-board">{caption}<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'
    lines = [tally(findings), *(repr(verdict_line(finding)) for _, finding in ordered)]
    return Fragment(_scrolling(table), "\n".join(lines))


def _row(index: int, finding: Finding, backends: bool, weights: bool, page: str | None) -> str:
    anchor = f"finding-{index}"
    statement = escape(finding.statement)
    if page is not None:
        statement = f'<a href="{escape(page)}#{anchor}">{statement}</a>'
    for text, kind in ((finding.tap, "knb-tap"), (finding.reason, "knb-reason")):
        statement += f'<span class="{kind}">{escape(text)}</span>' if text else ""
    figure = "" if finding.value is None else number(finding.value)
    cells = [f"<td>{chip(finding.verdict)}</td>", f'<td class="knb-statement">{statement}</td>']
    cells += [f'<td class="knb-backend" data-label="Backend">{escape(finding.backend or "")}</td>'] if backends else []
    cells += [f'<td class="knb-number" data-label="Figure">{figure}</td>']
    cells += [f'<td class="knb-number" data-label="Limit">{escape(limit(finding))}</td>']
    cells += [f'<td data-label="Unit">{escape(finding.unit)}</td>']
    cells += [f'<td data-label="Weights">{escape(finding.weights)}</td>'] if weights else []
    return f"<tr{'' if page is not None else f' id={anchor}'}>{''.join(cells)}</tr>"


def table(rows: Sequence[Mapping[str, Any]], caption: str = "") -> Fragment:
    """Return a table of `rows`: columns in the order in which they first appear, figures aligned right.

    A verdict (``pass``, ``fail``, ``unknown``, ``skip``) becomes its chip, None and an absent cell stay empty.
    """
    if not rows:
        return Fragment('<p class="knb knb-note">No rows.</p>', "No rows.")
    heads, columns = [], []
    for name in dict.fromkeys(name for row in rows for name in row):
        values = [row.get(name) for row in rows]
        kind = ' class="knb-number"' if any(map(_is_number, values)) else ""
        texts = _texts(values)
        heads.append(f'<th scope="col"{kind}>{escape(str(name))}</th>')
        cells = (f"<td{kind}>{_cell(value, text)}</td>" for value, text in zip(values, texts, strict=True))
        columns.append((str(name), texts, list(cells)))
    body = "".join(f"<tr>{''.join(cells)}</tr>" for cells in zip(*(column[2] for column in columns), strict=True))
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    html = f'<table class="knb-table">{title}<thead><tr>{"".join(heads)}</tr></thead><tbody>{body}</tbody></table>'
    lines = zip(*((name, *texts) for name, texts, _ in columns), strict=True)
    return Fragment(_scrolling(html), "\n".join("\t".join(line) for line in lines))


def _scrolling(html: str) -> str:
    """Put what may be too wide for the page where it scrolls, by keyboard too."""
    return f'<div class="knb knb-scroll" tabindex="0">{html}</div>'


def _is_number(value: Any) -> bool:
    return hasattr(value, "__float__") and not isinstance(value, bool) and getattr(value, "ndim", 0) == 0


def _texts(values: Sequence[Any]) -> list[str]:
    """Return the text of each value of a column; figures of like size get as many decimals each, to stand aligned."""
    sizes = [abs(float(value)) for value in values if _is_number(value) and math.isfinite(value) and value]
    decimals = None
    if sizes and min(sizes) >= 1e-3 and max(sizes) < 1e5 and max(sizes) / min(sizes) < 100:
        whole = all(size == int(size) for size in sizes)
        decimals = 0 if whole else max(0, 3 - math.floor(math.log10(max(sizes))))
    return [_text(value, decimals) for value in values]


def _text(value: Any, decimals: int | None) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not _is_number(value):
        return str(value)
    fixed = decimals is not None and math.isfinite(value) and value  # what is exactly 0 must not look rounded
    return f"{float(value):,.{decimals}f}" if fixed else number(value)


def _cell(value: Any, text: str) -> str:
    if isinstance(value, str) and value in ORDER:
        return chip(value)
    bad = _is_number(value) and not math.isfinite(value)
    return f'<strong class="knb-nonfinite">{escape(text)}</strong>' if bad else escape(text)
