"""Verdicts: recorded one by one in a notebook, shown there and again in the report; times and sizes in words."""

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from kokoro_nb.errors import InputError
from kokoro_nb.findings import RELATIONS, Finding, Verdict, limit, verdict_line
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


class CheckLog:
    """What was found on one set of weights.

    Parameters
    ----------
    weights : str
        Label of the weights that everything in it is measured on.
    out_dir : Path
        The folder of what is found.
    """

    def __init__(self, weights: str, out_dir: Path) -> None:
        self.weights, self.out_dir = weights, out_dir
        self.findings: list[Finding] = []

    def check(
        self,
        kind: str,
        statement: str,
        value: float,
        limit: float,
        op: str = "<=",
        unit: str = "",
        backend: str | None = None,
        tap: str | None = None,
        evidence: Sequence[str] = (),
        unknown: str = "",
    ) -> Fragment:
        """Record whether `value` `op` `limit` holds; a NaN never holds.

        Parameters
        ----------
        kind, statement : str
            The short key, and the claim as a sentence that stands alone.
        value, limit : float
            The figure and the limit that it is compared with, both in `unit`.
        op : str
            One of ``<=``, ``<``, ``>=``, ``>``, ``==``.
        unit, backend, tap, evidence
            As in `Finding`.
        unknown : str, optional
            For a figure that a busy machine can spoil: what it means that it does not hold. The verdict is ``unknown``
            then, and no failure of what the notebook is about.

        Raises
        ------
        InputError
            If `op` is none of these.
        """
        if op not in RELATIONS:
            raise InputError(f"'{op}' is no relation to check; use one of {', '.join(RELATIONS)}.")
        value, limit = float(value), float(limit)
        failure = ""
        if not RELATIONS[op](value, limit):
            failure = f"measured {number(value)} {unit}".rstrip() + f", required {op} {number(limit)} {unit}".rstrip()
            failure += f"; {unknown}" if unknown else ""
        verdict: Verdict = "pass" if not failure else "unknown" if unknown else "fail"
        about: dict[str, Any] = {"value": value, "limit": limit, "unit": unit, "relation": op, "evidence": (*evidence,)}
        return self._checked(Finding(kind, verdict, statement, self.weights, backend, tap=tap, reason=failure, **about))

    def claim(
        self,
        kind: str,
        statement: str,
        holds: bool,
        reason: str = "",
        backend: str | None = None,
        tap: str | None = None,
    ) -> Fragment:
        """Record whether `statement`, which has no figure, is true.

        Parameters
        ----------
        kind, statement, backend, tap
            As for `check`.
        holds : bool
            Whether it is; nothing but True is a pass.
        reason : str, optional
            What was found instead, where it is not true.

        Raises
        ------
        InputError
            If `holds` is no truth value: a figure belongs into `check`, with its limit.
        """
        if type(holds).__name__ != "bool":  # numpy has one of its own
            raise InputError(f"'{kind}' is given {holds!r}, not True or False; use check for a figure and its limit.")
        failure = "" if holds else reason or "it is not so"
        verdict: Verdict = "fail" if failure else "pass"
        return self._checked(Finding(kind, verdict, statement, self.weights, backend, tap=tap, reason=failure))

    def outcome(self, kind: str, statement: str, failure: object | None, backend: str) -> Fragment:
        """Record whether a step succeeded on `backend`: `failure` is None, or the record of why it did not."""
        return self.claim(kind, statement, failure is None, str(failure) or type(failure).__name__, backend)

    def note(self, finding: Finding) -> Fragment:
        """Record `finding` as it is."""
        self.findings.append(finding)
        self._save()
        return verdict_line(finding)

    def diagnosis(self, found: Any, subject: str = "The program", note: str = "", bundle: str | Path = "") -> Fragment:
        """Record a wrong export for the first page of the report, and return its card for the cell to show.

        It is what the notebook is about and no check: `close` does not raise for it.

        Parameters
        ----------
        found : Diagnosis, Failure or row of `survey`
            What was found out.
        subject : str
            What was exported, as the start of a sentence: ``"The whole decoder"``.
        note : str, optional
            What a reader has to know of it: that a fault was planted on purpose, for one.
        bundle : path, optional
            The folder below `out_dir` that reproduces the culprit: what ``found.save_bundle(log.out_dir / ...)`` wrote.

        Raises
        ------
        InputError
            If `bundle` lies elsewhere.
        """
        from kokoro_nb.reporting.wrong_export import card, described

        place = Path(bundle).resolve() if bundle else self.out_dir
        if not place.is_relative_to(self.out_dir):
            raise InputError(f"The bundle {bundle} has to lie below {self.out_dir}, so that the report can link to it.")
        row = described(found, subject, note, place.relative_to(self.out_dir).as_posix() if bundle else "")
        worst = next(iter(row["culprits"]), {"tap": None, "op": ""})
        tap = worst["tap"] and f"{worst['tap']} ({worst['op']})"
        about = {"backend": row["backend"], "tap": tap, "diagnosis": row, "reason": row["why"] or row["statement"]}
        statement = f"{subject}: {row['statement']}"
        self.note(Finding("diagnosis", row["verdict"], statement, self.weights, **about))
        return card(row)

    def _checked(self, finding: Finding) -> Fragment:
        """Record what was checked; a failure is shown at once, wherever in the cell it happens."""
        line = self.note(finding)
        return Fragment("", "") if finding.verdict == "fail" and displayed(line) else line

    def skip(self, kind: str, statement: str, reason: str, backend: str | None = None) -> Fragment:
        """Record that `statement` could not be checked here, and why."""
        return self.note(Finding(kind, "skip", statement, self.weights, backend, reason=reason))

    def _save(self) -> None:
        """Keep what has been found; a log that is kept nowhere does nothing."""
