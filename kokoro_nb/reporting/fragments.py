"""Verdicts as a notebook shows them and the report shows them again: one, many on a board, a whole run as a table."""

from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape

from kokoro_nb.findings import Finding, limit, verdict_line
from kokoro_nb.markup import ORDER, Fragment, chip, number, scrolling

WORDS: Mapping[str, str] = {"fail": "failed", "unknown": "unknown", "skip": "skipped", "pass": "passed"}


def checks(findings: Sequence[Finding]) -> list[Finding]:
    """Return `findings` without those about a wrong export: those are the subject, and no check."""
    return [finding for finding in findings if finding.diagnosis is None]


def tally(findings: Sequence[Finding]) -> str:
    """Return the verdicts of the checks counted, in words.

    >>> tally([Finding("finite", "pass", "All finite.", "seeded")])
    '1 check: 1 passed'
    """
    made = checks(findings)
    counts: Counter[str] = Counter(finding.verdict for finding in made)
    parts = [f"{counts[verdict]} {WORDS[verdict]}" for verdict in ORDER if counts[verdict]]
    return f"{len(made)} check{'' if len(made) == 1 else 's'}: {', '.join(parts) or 'none made'}"


def overall(findings: Sequence[Finding], completed: bool = True) -> str:
    """Return one verdict for all checks: failed if one did or the notebook stopped; nothing measured is no pass."""
    verdicts = {finding.verdict for finding in checks(findings)}
    if not completed or "fail" in verdicts:
        return "fail"
    if "unknown" in verdicts or not verdicts:
        return "unknown"
    return "pass" if "pass" in verdicts else "skip"


def board(findings: Sequence[Finding], rows: bool = True) -> Fragment:
    """Return the verdict board: what failed, is unknown or was skipped, and below it a line that opens to what passed.

    Each row has statement, figure, limit, backend, weights and reason, and the anchor ``finding-<n>``. What is about a
    wrong export is none of the checks, and not in it.

    Parameters
    ----------
    findings : sequence of Finding
        In the order in which they were made.
    rows : bool
        Whether what passed has rows; otherwise the line counts it.
    """
    numbered = [(index, finding) for index, finding in enumerate(findings, 1) if finding.diagnosis is None]
    if not numbered:
        text = "No check has been recorded: nothing is known."
        return Fragment(f'<p class="knb knb-line">{chip("unknown")} {text}</p>', text)
    ordered = sorted(numbered, key=lambda item: ORDER.index(item[1].verdict))
    passed = [item for item in ordered if item[1].verdict == "pass"]
    html = _table([item for item in ordered if item[1].verdict != "pass"])
    count = f"{len(passed)} check{'' if len(passed) == 1 else 's'} passed"
    if passed and rows:
        html += f'<details class="knb knb-passed"><summary>{count}</summary>{_table(passed)}</details>'
    elif passed:
        html += f'<p class="knb knb-line">{count}</p>'
    return Fragment(html, "\n".join([tally(findings), *(repr(verdict_line(finding)) for _, finding in ordered)]))


def _table(numbered: Sequence[tuple[int, Finding]]) -> str:
    if not numbered:
        return ""
    labels = list(dict.fromkeys(finding.weights for _, finding in numbered))
    backends = any(finding.backend for _, finding in numbered)
    heads = ["Verdict", "Statement", *(["Backend"] if backends else []), "Figure", "Limit", "Unit"]
    heads += ["Weights"] if len(labels) > 1 else []
    rows = "".join(_row(index, finding, backends, len(labels) > 1) for index, finding in numbered)
    head = "".join(
        f'<th scope="col"{" class=knb-number" if name in ("Figure", "Limit") else ""}>{name}</th>' for name in heads
    )
    caption = "" if len(labels) > 1 else f"<caption>Weights: {escape(labels[0])}</caption>"
    return scrolling(f'<table class="knb-board">{caption}<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>')


def _row(index: int, finding: Finding, backends: bool, weights: bool) -> str:
    statement = escape(finding.statement)
    for text, kind in ((finding.tap, "knb-tap"), (finding.reason, "knb-reason")):
        statement += f'<span class="{kind}">{escape(text)}</span>' if text else ""
    figure = "" if finding.value is None else number(finding.value)
    cells = [f"<td>{chip(finding.verdict)}</td>", f'<td class="knb-statement">{statement}</td>']
    cells += [f'<td class="knb-backend" data-label="Backend">{escape(finding.backend or "")}</td>'] if backends else []
    cells += [f'<td class="knb-number" data-label="Figure">{figure}</td>']
    cells += [f'<td class="knb-number" data-label="Limit">{escape(limit(finding))}</td>']
    cells += [f'<td data-label="Unit">{escape(finding.unit)}</td>']
    cells += [f'<td data-label="Weights">{escape(finding.weights)}</td>'] if weights else []
    return f"<tr id=finding-{index}>{''.join(cells)}</tr>"
