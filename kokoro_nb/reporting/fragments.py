"""Verdicts as a notebook shows them and the report again; times and sizes in words."""

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from kokoro_nb.findings import Finding, limit, verdict_line
from kokoro_nb.markup import ORDER, Fragment, chip, number

WORDS: Mapping[str, str] = {"fail": "failed", "unknown": "unknown", "skip": "skipped", "pass": "passed"}


def duration(seconds: float) -> str:
    """Return a wall time as one reads it.

    >>> duration(4.21), duration(192.6)
    ('4.2 s', '3 min 13 s')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s"


def size_text(count: int) -> str:
    """Return a number of bytes as one reads it.

    >>> size_text(812), size_text(1_540_000), size_text(5_230_000_000)
    ('1 kB', '1.5 MB', '5.2 GB')
    """
    if count < 1e6:
        return f"{max(1, round(count / 1e3))} kB"
    return f"{count / 1e6:.1f} MB" if count < 1e9 else f"{count / 1e9:.1f} GB"


def rendered(template: str, **values: Any) -> str:
    """Return a template of this room with these values; every text in them is escaped."""
    return _environment().get_template(template).render(values)


@cache
def _environment() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader, undefined = PackageLoader("kokoro_nb", "reporting"), StrictUndefined
    made = Environment(loader=loader, autoescape=True, undefined=undefined, trim_blocks=True, lstrip_blocks=True)
    made.filters |= {"chip": chip, "number": number, "limit": limit}
    made.filters |= {"duration": duration, "size": size_text, "tally": tally}
    return made


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
    ordered = sorted(numbered, key=lambda item: ORDER.index(item[1].verdict))
    passed = [item for item in ordered if item[1].verdict == "pass"]
    text = "No check has been recorded: nothing is known."
    html = rendered("board.html.j2", open=ordered[: len(ordered) - len(passed)], passed=passed, rows=rows, text=text)
    lines = [tally(findings), *(repr(verdict_line(finding)) for _, finding in ordered)]
    return Fragment(html, "\n".join(lines) if numbered else text)


def displayed(result: Any) -> bool:
    """Display `result` in the cell that is running, and return whether there is one."""
    ipython = sys.modules.get("IPython")
    if ipython is None or ipython.get_ipython() is None:
        return False
    ipython.display.display(result)
    return True
