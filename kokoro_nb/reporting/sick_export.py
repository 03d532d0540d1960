"""A sick export as a card that is read in ten seconds: what is wrong, where, why, what is known, what cures it."""

import math
from functools import singledispatch
from html import escape
from typing import Any

from kokoro_nb import markup
from kokoro_nb.backends.base import Failure
from kokoro_nb.locate.card_facts import Row, card_facts, figure, percent
from kokoro_nb.locate.known_defects import known_failure
from kokoro_nb.locate.survey import SurveyRow
from kokoro_nb.markup import Fact, Fragment, number
from kokoro_nb.storage import json_ready

CULPRITS = 8  # that are recorded of one diagnosis, those with the largest effect
PARTS = "Export the parts of the module one by one, or with patches, until the one that fails is found."


@singledispatch
def described(found: Any, subject: str, note: str = "", bundle: str = "") -> dict[str, Any]:
    """Return what ``findings.json`` records of a sick export, as plain values.

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
        ``remedies`` as in `Diagnosis.as_dict`; ``excluded`` and ``next step``, where nothing is localised;
        ``culprits``, the largest effect first, at most 8, and their ``count``; ``failure``, of an export that failed;
        ``known``, the known defect: its ``name``, ``title`` and ``threads``.
    """
    row = found.row()
    culprits = [{**one, "candidates": len(one["candidates"])} for one in row["culprits"][:CULPRITS]]
    return {**row, "culprits": culprits, "subject": subject, "note": note, "bundle": bundle}


@described.register
def _failed_export(found: Failure, subject: str, note: str = "", bundle: str = "") -> dict[str, Any]:
    known = {"failure": found.as_dict(), "output": None, "next step": PARTS, "known": known_failure(found)}
    return _unlocalised(found.backend, "export", f"{found}.", subject=subject, note=note, bundle=bundle, **known)


@described.register
def _surveyed(found: SurveyRow, subject: str, note: str = "", bundle: str = "") -> dict[str, Any]:
    if found.failure is not None:
        return _failed_export(found.failure, subject, note, bundle)
    statement, compared = f"kokoro-nb diagnose --backend {found.backend} looks for it.", found.eager32
    output = compared and {"error (of peak)": compared.of_peak, "finite (%)": 100 * compared.finite}
    known = {"failure": None, "output": output, "known": None}
    row = _unlocalised(found.backend, "survey", statement, subject=subject, note=note, bundle=bundle, **known)
    return dict(json_ready(row))


def _unlocalised(backend: str, method: str, statement: str, **known: Any) -> dict[str, Any]:
    """Return a row in which nothing is localised."""
    about = {"backend": backend, "method": method, "why": "", "verdict": "fail", "statement": statement}
    return {**about, "remedies": [], "culprits": [], "count": 0, **known}


def severity(row: Row) -> tuple[float, float]:
    """Return a key that sorts diagnoses, the worst last: no export, then not finite, then the error of the output."""
    output = row.get("output") or {}
    if row.get("failure"):
        return 3.0, 0.0
    finite, error = figure(output.get("finite (%)")), figure(output.get("error (of peak)"))
    if finite is not None and finite < 100:
        return 2.0, 100 - finite
    if error is None or math.isnan(error):
        return 0.0, 0.0
    return 1.0, error


def symptom(row: Row) -> tuple[str, str]:
    """Return what is wrong with the output in two words, and in a sentence."""
    output = row.get("output") or {}
    if row.get("failure"):
        return "no export", f"It cannot be exported: {row['failure']['error']}"
    finite, error = figure(output.get("finite (%)")), figure(output.get("error (of peak)"))
    if finite == 0:
        return "all NaN", "Every value of the output is NaN or infinite: there is nothing to hear."
    if finite is not None and finite < 100:
        return "NaN", f"{number(100 - finite)} % of the output is NaN or infinite."
    if error is None or math.isnan(error):
        return str(row.get("verdict", "unknown")), str(row.get("statement", ""))
    limit = figure(output.get("limit (of peak)"))
    allowed = "" if limit is None or math.isnan(limit) else f"; {percent(limit)} is allowed"
    return f"{percent(error)} off", f"The output is off by {percent(error)} of its peak{allowed}."


def card(row: Row, page: str = "", name: str = "", bundle: str = "") -> Fragment:
    """Return the card of a sick export.

    Parameters
    ----------
    row : mapping
        What `described` returned, also as read from ``findings.json``.
    page, name : str
        Address and name of the notebook that shows how it was found; without them there is no link.
    bundle : str
        Address of the folder that reproduces it.
    """
    badge, sentence = symptom(row)
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
    return markup.card(Fragment(head, f"{badge.upper()}: {subject} on {backend}. {sentence}"), facts, foot)
