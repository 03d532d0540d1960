"""A sick export as a card that is read in ten seconds: what is wrong, where, why, what is known, what cures it."""

import math
import re
from collections.abc import Mapping
from functools import singledispatch
from html import escape
from typing import Any

from kokoro_nb.backends.base import Failure
from kokoro_nb.locate.diagnosis import Diagnosis
from kokoro_nb.locate.survey import SurveyRow
from kokoro_nb.markup import Fragment, number
from kokoro_nb.storage import json_ready

Row = Mapping[str, Any]
CULPRITS = 8  # that are recorded of one diagnosis, those with the largest effect
PARTS = "Export the parts of the module one by one, or with patches, until the one that fails is found."
RUNNERS = {"coremltools": "coreml", "onnxruntime": "onnxruntime", "tvm": "tvm", "xnnpack": "executorch-xnnpack"}


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
    about = found.as_dict()
    kept = {name: about[name] for name in ("backend", "method", "why", "verdict", "statement", "output", "remedies")}
    culprits = [{**one.as_dict(), "candidates": len(one.candidates)} for one in found.ranked[:CULPRITS]]
    kept |= {"subject": subject, "note": note, "bundle": bundle, "culprits": culprits, "count": len(found.culprits)}
    kept |= {"excluded": list(found.excluded), "next step": found.next_step}
    failure = found.failure and found.failure.as_dict()
    return dict(json_ready({**kept, "failure": failure, "known": _known(found)}))


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


def known_failure(failure: Failure) -> dict[str, Any] | None:
    """Return the known defect whose message a failed export shows: its name, title and threads; None if none does."""
    from kokoro_nb.defects.catalogue import DEFECTS

    for defect in DEFECTS:
        theirs = defect.runner and failure.backend.startswith(RUNNERS.get(defect.runner, "\0"))
        if defect.error and theirs and re.search(defect.error, failure.message):
            return {"name": defect.name, "title": defect.title, "threads": []}
    return None


def _known(found: Diagnosis) -> dict[str, Any] | None:
    if found.failure is not None:
        return known_failure(found.failure)
    named = next((one.mechanism for one in found.ranked if one.mechanism.defect), None)
    if named is None:
        return None
    from kokoro_nb.defects.catalogue import DEFECTS

    title = next((one.title for one in DEFECTS if one.name == named.defect), "")
    return {"name": named.defect, "title": title, "threads": list(named.threads)}


def severity(row: Row) -> tuple[float, float]:
    """Return a key that sorts diagnoses, the worst last: no export, then not finite, then the error of the output."""
    output = row.get("output") or {}
    if row.get("failure"):
        return 3.0, 0.0
    finite, error = _figure(output.get("finite (%)")), _figure(output.get("error (of peak)"))
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
    finite, error = _figure(output.get("finite (%)")), _figure(output.get("error (of peak)"))
    if finite == 0:
        return "all NaN", "Every value of the output is NaN or infinite: there is nothing to hear."
    if finite is not None and finite < 100:
        return "NaN", f"{number(100 - finite)} % of the output is NaN or infinite."
    if error is None or math.isnan(error):
        return str(row.get("verdict", "unknown")), str(row.get("statement", ""))
    limit = _figure(output.get("limit (of peak)"))
    allowed = "" if limit is None or math.isnan(limit) else f"; {_percent(limit)} is allowed"
    return f"{_percent(error)} off", f"The output is off by {_percent(error)} of its peak{allowed}."


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
    parts = [("Culprit", *_culprit(row)), ("Why", *_mechanism(row)), ("Known", *_defect(row)), ("Cure", *_cure(row))]
    more = {"Next": row.get("next step"), "Note": row.get("note")}
    parts += [(head, escape(str(text)), str(text)) for head, text in more.items() if text]
    rows = "".join(f"<div><dt>{head}</dt><dd>{html}</dd></div>" for head, html, _ in parts)
    links = [f'<a href="{escape(page)}">How it was found: {escape(name)}</a>'] if page else []
    if bundle:
        links.append(f'<a href="{escape(bundle)}">The operator alone, to run and report</a>')
    elif row.get("bundle"):
        links.append(f"The operator alone, to run and report: <code>{escape(str(row['bundle']))}</code>")
    subject, backend = str(row.get("subject", "")), str(row.get("backend", ""))
    html = (
        '<div class="knb knb-card"><p class="knb-card-head">'
        f'<span class="knb-chip knb-{"unknown" if row.get("verdict") == "unknown" else "fail"}">{escape(badge)}</span> '
        f'<strong>{escape(subject)}</strong> <span class="knb-on">on {escape(backend)}</span></p>'
        f'<p class="knb-card-what">{escape(sentence)}</p><dl>{rows}</dl>'
        + (f'<p class="knb-card-links">{" · ".join(links)}</p>' if links else "")
        + "</div>"
    )
    lines = [f"{badge.upper()}: {subject} on {backend}. {sentence}", *(f"  {head}: {text}" for head, _, text in parts)]
    return Fragment(html, "\n".join(lines))


def _culprit(row: Row) -> tuple[str, str]:
    failure, culprits = row.get("failure"), row.get("culprits") or []
    if failure:
        named, line = failure.get("operator") or "the message names no operator", failure.get("line of the model", "")
        path, _, kind = named.partition(":")
        return _operator(path or "(the module itself)", kind, line), f"{named} {line}"
    if not culprits:
        text = f"No single operator is named. {row.get('statement', '')}"
        return escape(text), text
    worst = culprits[0]
    path, _, kind = str(worst.get("tap")).partition(":")
    figures = [
        _of_peak("its own result is", worst.get("local error (of peak)")),
        _of_peak("its inputs were", worst.get("inherited error (of peak)")),
    ]
    effect = _figure(worst.get("effect (of the output's error)"))
    if effect is not None and not math.isnan(effect):
        figures.append(f"were it alone right, {number(100 * effect)} % of the output's error would be gone")
    figures = [*filter(None, (worst.get("channels"), *figures))]
    others = int(row.get("count", len(culprits))) - 1
    figures += [f"{others} other operator{'s are' if others > 1 else ' is'} wrong, too"] if others > 0 else []
    small = f'<span class="knb-reason">{escape("; ".join(figures))}</span>'
    text = f"{worst.get('tap')} ({worst.get('op')}); {'; '.join(figures)}"
    return _operator(path or "(the module itself)", kind, str(worst.get("source") or "")) + small, text


def _operator(path: str, kind: str, line: str) -> str:
    parts = [f"<code>{escape(path)}</code>", f"<code>{escape(kind)}</code>" if kind else "", escape(line)]
    return " · ".join(filter(None, parts))


def _mechanism(row: Row) -> tuple[str, str]:
    culprits = row.get("culprits") or []
    if row.get("failure"):
        text = f"The export failed when {row['failure']['rung']}."
        return escape(text), text
    mechanism = culprits[0].get("mechanism") if culprits else None
    if not mechanism or mechanism.get("name") == "unknown":
        return "No mechanism that we know explains it.", "unknown"
    evidence = "; ".join(mechanism.get("evidence") or ())
    small = f'<span class="knb-reason">{escape(evidence)}</span>' if evidence else ""
    head = f"<strong>{escape(mechanism['name'])}</strong>: {escape(mechanism['statement'])}"
    return head + small, f"{mechanism['name']}: {mechanism['statement']} ({evidence})"


def _defect(row: Row) -> tuple[str, str]:
    known = row.get("known")
    if not known:
        return "No known defect of the tool.", "no known defect"
    links = [
        f'<a href="https://github.com/{escape(str(one).replace("#", "/issues/", 1))}">{escape(str(one))}</a>'
        for one in known.get("threads") or ()
    ]
    title = str(known.get("title") or known.get("name"))
    text = f"{title} ({', '.join([str(known.get('name')), *map(str, known.get('threads') or ())])})"
    return ", ".join([f"{escape(title)} <code>{escape(str(known.get('name')))}</code>", *links]), text


def _cure(row: Row) -> tuple[str, str]:
    remedies = [one for one in row.get("remedies") or () if one.get("verdict") == "pass"]
    tried = [str(one.get("remedy")) for one in row.get("remedies") or ()]
    if not remedies:
        text = f"None found; tried: {', '.join(tried)}." if tried else "None tried."
        return escape(text), text
    best = remedies[0]
    before, after = (_figure(best.get(f"output {side} (of peak)")) for side in ("before", "after"))
    figures = f"error of the output {'not exported' if row.get('failure') else _error(before)} → {_error(after)}"
    head = f"<strong>{escape(str(best['remedy']))}</strong> ({escape(str(best['kind']))}): {escape(figures)}"
    return head + f'<span class="knb-reason">{escape(str(best["what is changed"]))}</span>', (
        f"{best['remedy']} ({best['kind']}): {figures}"
    )


def _error(value: float | None) -> str:
    return "not measured" if value is None else "NaN" if math.isnan(value) else f"{_percent(value)} of its peak"


def _of_peak(what: str, value: Any) -> str:
    figure = _figure(value)
    if figure is None:
        return ""
    return f"{what} {f'{_percent(figure)} of the peak off' if math.isfinite(figure) else 'not finite'}"


def _percent(share: float) -> str:
    return f"{number(float(f'{100 * share:.2g}'))} %"


def _figure(value: Any) -> float | None:
    """Return a figure of a findings file, where what is not finite is written as a word."""
    return None if value is None else float(value)
