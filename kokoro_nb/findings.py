"""A finding: one checked statement with its figure, and the file that carries a notebook's findings."""

import math
import operator
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from kokoro_nb.errors import InputError
from kokoro_nb.markup import Fragment, line, number
from kokoro_nb.storage import read_json, write_json

Verdict = Literal["pass", "fail", "unknown", "skip"]
SCHEMA = 2  # 1 had no diagnosis, and is read as well
RELATIONS = {"<=": operator.le, "<": operator.lt, ">=": operator.ge, ">": operator.gt, "==": operator.eq}
SIGNS: Mapping[str, str] = {"<=": "≤ ", "<": "< ", ">=": "≥ ", ">": "> ", "==": "= ", "": ""}


@dataclass(frozen=True)
class Finding:
    """One statement that was checked.

    Attributes
    ----------
    kind : str
        What was checked, as a short key: ``finite``, ``parity``, ``patch_effect`` ...
    verdict : str
        ``pass``, ``fail``, ``unknown`` (it could not be measured: never a pass) or ``skip`` (with its reason).
    statement : str
        The finding in one sentence that can stand alone.
    weights : str
        Label of the weights that it was measured on.
    backend : str or None
        Name of the backend, where one was involved.
    value, limit : float or None
        The figure, and the limit that it was compared with; in `unit`.
    unit : str
        Unit of both, ``""`` for a ratio.
    tap : str or None
        Module path and operator at which it shows.
    reason : str
        Why it is ``skip`` or ``unknown``, or the exact error behind a ``fail``.
    evidence : tuple of str
        Files, relative to ``findings.json``.
    relation : str
        The relation that is required of the figure to the limit: one of `RELATIONS`, or ``""`` where there is no limit.
    diagnosis : mapping or None
        What was found out about a wrong export, as plain values: see `kokoro_nb.reporting.wrong_export`. Such a finding
        is about the subject of a notebook, and is none of its checks.
    """

    kind: str
    verdict: Verdict
    statement: str
    weights: str
    backend: str | None = None
    value: float | None = None
    limit: float | None = None
    unit: str = ""
    tap: str | None = None
    reason: str = ""
    evidence: tuple[str, ...] = ()
    relation: str = ""
    diagnosis: Mapping[str, Any] | None = field(default=None, hash=False)

    def __post_init__(self) -> None:
        if self.verdict not in get_args(Verdict):
            raise InputError(f"{self.verdict!r} is no verdict; use one of {', '.join(get_args(Verdict))}.")
        if self.verdict in ("skip", "unknown") and not self.reason:
            raise InputError(f"A finding with the verdict '{self.verdict}' needs a reason; say why.")
        if self.relation and self.relation not in RELATIONS:
            raise InputError(f"{self.relation!r} is no relation; use one of {', '.join(RELATIONS)}.")
        if self.diagnosis is not None and not isinstance(self.diagnosis, Mapping):
            raise InputError("A diagnosis is a mapping of names to plain values.")
        if self.verdict == "pass" and self.value is not None and math.isnan(self.value):
            raise InputError("A figure that is NaN is no pass; use 'fail' or 'unknown' with a reason.")

    def _repr_html_(self) -> str:
        return verdict_line(self)._repr_html_()


def limit(finding: Finding) -> str:
    """Return the limit with the relation that is required of the figure."""
    return "" if finding.limit is None else f"{SIGNS[finding.relation]}{number(finding.limit)}"


def verdict_line(finding: Finding) -> Fragment:
    """Return one finding as a line: what a notebook shows below the cell that checked it."""
    held = f" {limit(finding)}" if finding.verdict == "pass" else ""
    figure = "" if finding.value is None else f"{number(finding.value)}{held} {finding.unit}".strip()
    notes = [part for part in (finding.backend, figure, finding.reason) if part]
    return line(finding.verdict, finding.statement, notes)


def failure_line(finding: Finding) -> str:
    """Return a failed check in one line of text: the statement, the backend, the operator, the figure."""
    notes = "; ".join(filter(None, (finding.backend, finding.tap, " ".join(finding.reason.split()))))
    return f"{finding.statement} ({notes})" if notes else finding.statement


def write_findings(path: str | Path, findings: Iterable[Finding], **about: Any) -> Path:
    """Write ``findings.json``: the findings, preceded by what `about` says of them (notebook, parameters, versions)."""
    return write_json(path, {"schema": SCHEMA, **about, "findings": [asdict(finding) for finding in findings]})


def read_findings(path: str | Path) -> tuple[tuple[Finding, ...], Mapping[str, Any]]:
    """Read ``findings.json`` and return the findings and what the file says about them.

    Raises
    ------
    InputError
        If the file is absent, is no JSON, or is of another schema.
    """
    about = read_json(path, "findings file")
    known = isinstance(about, dict) and about.get("schema") in (1, SCHEMA)
    if not known or not isinstance(about.get("findings"), list):
        raise InputError(f"{path} is no findings file of schema {SCHEMA}; run the notebook again to make one.")
    findings = []
    for row in about.pop("findings"):
        try:
            numbers = {key: float(row[key]) for key in ("value", "limit") if row.get(key) is not None}
            findings.append(Finding(**{**row, **numbers, "evidence": tuple(row.get("evidence", ()))}))
            _require_texts(findings[-1])
        except (AttributeError, TypeError, ValueError, OverflowError) as error:
            why = str(error)[:200]
            raise InputError(f"{path} holds a row that is no finding ({why}); run the notebook again.") from error
    return tuple(findings), about


def _require_texts(finding: Finding) -> None:
    """Raise a TypeError if a text is none."""
    texts = (finding.kind, finding.statement, finding.weights, finding.unit, finding.reason, finding.relation)
    perhaps = (text for text in (finding.backend, finding.tap) if text is not None)
    if not all(isinstance(text, str) for text in (*texts, *finding.evidence, *perhaps)):
        raise TypeError("a value is of another kind than it should be")
