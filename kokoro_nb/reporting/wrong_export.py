"""A wrong export as a card that is read in ten seconds: what is wrong, where, why, what is known, what cures it."""

import math
from html import escape
from typing import Any

from kokoro_nb import markup
from kokoro_nb.backends.base import Failure
from kokoro_nb.locate.card_facts import Fact, Row, card_facts, facts_card, figure, percent
from kokoro_nb.locate.diagnosis import Diagnosis
from kokoro_nb.locate.output_error import OutputError
from kokoro_nb.locate.survey import SurveyRow
from kokoro_nb.markup import Fragment, number

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
    row = _diagnosis(found).row()
    culprits = [{**one, "candidates": len(one["candidates"])} for one in row["culprits"][:CULPRITS]]
    row |= {"next step": ""} if isinstance(found, SurveyRow) and not row["failure"] else {}
    return {**row, "culprits": culprits, "subject": subject, "note": note, "bundle": bundle}


def _diagnosis(found: Diagnosis | Failure | SurveyRow) -> Diagnosis:
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
