"""What is recorded of an export, by the type of what was measured: its checks, and a card of what is wrong in it.

The checks are those that every exported program has to pass: see `Logbook.record`. The card is read in ten seconds:
what is wrong, where, why, what is known, what cures it.
"""

import math
from functools import singledispatch
from html import escape
from typing import Any

import numpy as np

from kokoro_nb import markup
from kokoro_nb.backends.base import Failure
from kokoro_nb.errors import InputError
from kokoro_nb.findings import Finding
from kokoro_nb.locate.card_facts import Fact, Row, card_facts, facts_card, figure, percent
from kokoro_nb.locate.culprit import Culprit, known_failure
from kokoro_nb.locate.diagnosis import Diagnosis
from kokoro_nb.locate.investigation import Investigation
from kokoro_nb.locate.output_error import OutputError
from kokoro_nb.locate.survey import SurveyRow
from kokoro_nb.markup import Fragment, number
from kokoro_nb.reporting.fragments import CheckLog

PROBE_LIMIT = 1e-5  # of peak


@singledispatch
def record_checks(result: Any, log: CheckLog, subject: str, parity: float | None) -> None:
    """Record the checks of one result in `log`; the arguments are those of `Logbook.record`."""
    raise InputError(f"No checks are known for a {type(result).__name__}; use check or claim.")


@record_checks.register(SurveyRow)
def _row(row: SurveyRow, log: CheckLog, subject: str, parity: float | None) -> None:
    if row.absent:
        log.skip("runs", f"{subject} is exported and runs.", row.absent, row.backend)
        return
    if row.unexecuted:
        log.outcome("built", f"{subject} is exported.", row.failure, row.backend)
        log.skip("runs", f"{subject} runs.", row.unexecuted, row.backend)
        return
    if row.failure is not None:
        record_checks(row.failure, log, subject, parity)
        return
    log.outcome("runs", f"{subject} is exported and runs.", None, row.backend)
    nothing = float("nan")  # fails every check
    finite = row.eager32.finite if row.eager32 else nothing
    if row.eager32 and (finite != 1 or (parity is not None and not row.eager32.of_peak <= parity)):
        log.diagnosis(row, subject)
    log.check("finite", f"{subject}: the output is finite.", finite, 1, "==", backend=row.backend)
    if row.climb and row.climb.drift is not None:
        claim = f"{subject}: several calls on one loaded program agree."
        log.check("repeat", claim, row.climb.drift, 0, "==", backend=row.backend)
    if parity is not None:
        claim = f"{subject} agrees with eager float32."
        error = row.eager32.of_peak if row.eager32 else nothing
        log.check("parity", claim, error, parity, unit="of peak", backend=row.backend)


@record_checks.register(Failure)
def _failure(failure: Failure, log: CheckLog, subject: str, parity: float | None) -> None:
    log.diagnosis(failure, subject)
    known = known_failure(failure)
    about = [str(failure), failure.operator and f"operator: {failure.operator}", failure.line and f"at {failure.line}"]
    about.append(f"known defect: {known['title']}" if known else "")
    log.outcome("runs", f"{subject} is exported and runs.", "; ".join(filter(None, about)), failure.backend)


@record_checks.register(Diagnosis)
def _diagnosis(found: Diagnosis, log: CheckLog, subject: str, parity: float | None) -> None:
    if found.failure is not None:
        record_checks(found.failure, log, subject, parity)
        return
    if found.verdict == "fail" or (found.output is not None and found.output.verdict == "fail"):
        curable = found.culprits and found.subject is not None and found.output is not None and not found.remedies
        found = found.try_remedies() if curable else found
        log.diagnosis(found, subject)
    if found.investigation is not None and found.bisection is None:
        record_checks(found.investigation, log, subject, parity)
        _culprits(found, log)
        claim = f"{subject} is right as a whole, and each operator by itself."
    else:
        claim = f"{subject} computes what each of its operators computes in float64, within rounding."
    if found.verdict == "unknown":
        statement = f"{subject}: {found.statement}"
        log.note(Finding(found.method, "unknown", statement, log.weights, found.backend, reason=found.why))
    elif found.verdict == "fail" or found.bisection is not None:
        named = _named(found.ranked[0]) if found.ranked else None
        log.claim(found.method, claim, found.verdict == "pass", found.statement, found.backend, named)


def _culprits(found: Diagnosis, log: CheckLog) -> None:
    """Record the operator that is executed first and the one with the largest effect, which may be the same."""
    named = {one.tap.name: one for one in (*found.culprits[:1], *found.ranked[:1]) if one.tap is not None}
    for name, one in named.items():
        inherited = "" if one.inherited_error is None else f"inherited error {number(one.inherited_error)} of peak"
        effect = "" if one.effect is None else f"{number(100 * one.effect)} % of the output's error"
        notes = (f"mechanism: {one.mechanism.name}", inherited, effect, one.source, one.reason)
        reason = "; ".join(filter(None, notes))
        tap, unit = f"{name} ({one.tap and one.tap.op})", "of peak, by itself"
        about = one.kind, one.verdict, one.statement, log.weights, one.backend
        log.note(Finding(*about, value=one.local_error, unit=unit, tap=tap, reason=reason))


@record_checks.register(Investigation)
def _investigation(found: Investigation, log: CheckLog, subject: str, parity: float | None) -> None:
    name = found.backend
    log.outcome("runs", f"{subject} is exported and runs.", None, name)
    claim = "Tapping leaves the output as it was, but for rounding."
    if not any(np.isfinite(one).any() for one in found.history.first.values()):
        reason = "no element of the outputs is finite without taps"
        log.note(Finding("probe_effect", "unknown", claim, log.weights, name, reason=reason))
    else:
        log.check("probe_effect", claim, found.probe.of_peak, PROBE_LIMIT, unit="of peak", backend=name)
    claim = "The same inputs give the same answer after poisoned and constant ones."
    log.claim("history", claim, not found.history.depends, found.history.statement, backend=name)
    bad = sum(tap.statistics.finite != 1 for tap in found.candidate.taps)
    named = _named(found.nonfinite)
    log.check("finite", "Every captured operator is finite.", bad, 0, "==", "operators", name, named)
    wrong = _named(found.faults[0]) if found.faults else None
    worst = float(np.max([error.ratio for error in found.errors])) if found.errors else float("nan")
    claim = "Every captured operator is right on its own inputs, within the rounding-error bound."
    log.check(*("local_error", claim, worst, 1), unit="of the rounding-error bound", backend=name, tap=wrong)


def _named(culprit: Culprit) -> str | None:
    return None if culprit.tap is None else f"{culprit.tap.name} ({culprit.tap.op})"


CULPRITS = 8  # that are recorded of one diagnosis, those with the largest effect


def described(found: Diagnosis | Failure | SurveyRow, subject: str, note: str = "", bundle: str = "") -> dict[str, Any]:
    """Return what ``findings.json`` records of a wrong export, as plain values.

    Parameters
    ----------
    found : Diagnosis, Failure or SurveyRow
        What was found out.
    subject : str
        What was exported, as the start of a sentence: ``"The whole decoder"``.
    note : str
        What a reader has to know of it: that a fault was planted on purpose, for one.
    bundle : str
        Folder of what reproduces it, relative to ``findings.json``.

    Returns
    -------
    dict
        ``subject``, ``note``, ``bundle``; ``backend``, ``method``, ``why``, ``verdict``, ``statement``, ``output`` and
        ``remedies`` as in `Diagnosis.row`; ``excluded`` and ``next step``, where nothing is localised;
        ``culprits``, the largest effect first, at most 8, and their ``count``; ``failure``, of an export that failed;
        ``known``, the known defect: its ``name``, ``title`` and ``threads``.
    """
    row = _as_diagnosis(found).row()
    culprits = [{**one, "candidates": len(one["candidates"])} for one in row["culprits"][:CULPRITS]]
    row |= {"next step": ""} if isinstance(found, SurveyRow) and not row["failure"] else {}
    return {**row, "culprits": culprits, "subject": subject, "note": note, "bundle": bundle}


def _as_diagnosis(found: Diagnosis | Failure | SurveyRow) -> Diagnosis:
    """Return what was found as a diagnosis; of a failure and of a survey one in which nothing is localised."""
    if isinstance(found, Diagnosis):
        return found
    failure = found if isinstance(found, Failure) else found.failure
    if failure is not None:
        return Diagnosis(failure.backend, "export", "", "fail", (), f"{failure}.", failure)
    assert isinstance(found, SurveyRow)
    statement, seen = f"kokoro-nb diagnose --backend {found.backend} looks for it.", found.eager32
    output = None if seen is None else OutputError("output", seen.of_peak, seen.finite)
    return Diagnosis(found.backend, "survey", "", "fail", (), statement, output=output)


def symptom(row: Row) -> tuple[str, str, tuple[float, float]]:
    """Return what is wrong with the output in two words, and in a sentence, and a key that sorts, the worst last.

    The worst is no export, then an output that is not finite, then the largest error.
    """
    output = row.get("output") or {}
    if row.get("failure"):
        return "no export", f"It cannot be exported: {row['failure']['error']}", (3.0, 0.0)
    finite, error = figure(output.get("finite (%)")), figure(output.get("error (of peak)"))
    if finite is not None and finite < 100:
        some = f"{number(100 - finite)} % of the output is NaN or infinite."
        every = "Every value of the output is NaN or infinite: there is nothing to hear."
        return "NaN" if finite else "all NaN", some if finite else every, (2.0, 100 - finite)
    if error is None or math.isnan(error):
        return str(row.get("verdict", "unknown")), str(row.get("statement", "")), (0.0, 0.0)
    limit = figure(output.get("limit (of peak)"))
    allowed = "" if limit is None or math.isnan(limit) else f"; {percent(limit)} is allowed"
    return f"{percent(error)} off", f"The output is off by {percent(error)} of its peak{allowed}.", (1.0, error)


def card(row: Row, page: str = "", name: str = "", bundle: str = "") -> Fragment:
    """Return the card of a wrong export.

    Parameters
    ----------
    row : mapping
        What `described` returned, also as read from ``findings.json``.
    page, name : str
        Address and name of the notebook that shows how it was found; without them there is no link.
    bundle : str
        Address of the folder that reproduces it.
    """
    badge, sentence, _ = symptom(row)
    links = [f'<a href="{escape(page)}">How it was found: {escape(name)}</a>'] if page else []
    if bundle:
        links.append(f'<a href="{escape(bundle)}">The operator alone, to run and report</a>')
    elif row.get("bundle"):
        links.append(f"The operator alone, to run and report: <code>{escape(str(row['bundle']))}</code>")
    subject, backend = str(row.get("subject", "")), str(row.get("backend", ""))
    label = markup.chip("unknown" if row.get("verdict") == "unknown" else "fail", badge)
    about = f'<strong>{escape(subject)}</strong> <span class="knb-on">on {escape(backend)}</span>'
    head = f'<p class="knb-card-head">{label} {about}</p><p class="knb-card-what">{escape(sentence)}</p>'
    facts = [*card_facts(row), *([Fact("note", str(row["note"]))] if row.get("note") else [])]
    foot = f'<p class="knb-card-links">{" · ".join(links)}</p>' if links else ""
    return facts_card(Fragment(head, f"{badge.upper()}: {subject} on {backend}. {sentence}"), facts, foot)
