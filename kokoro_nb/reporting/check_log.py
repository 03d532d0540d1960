"""The checks of a notebook: findings recorded one by one, each shown where it fails."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kokoro_nb.errors import InputError
from kokoro_nb.findings import RELATIONS, Finding, Verdict, verdict_line
from kokoro_nb.markup import Fragment, number


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
        about = (kind, verdict, statement, self.weights, backend, value, limit, unit, tap, failure, tuple(evidence), op)
        return self._checked(Finding(*about))

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
