"""A diagnosis as one HTML page: what is wrong, why and what cures it on the first screen, all figures below."""

from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING

from kokoro_nb import markup
from kokoro_nb.locate.culprit import Culprit

if TYPE_CHECKING:
    from kokoro_nb.locate.diagnosis import Diagnosis

STYLE = """
.knb-card { display: grid; grid-template-columns: max-content 1fr; gap: .6rem 1.25rem; margin: 1rem 0 2rem;
  padding: 1.25rem 1.5rem; border: 1px solid color-mix(in srgb, currentColor 25%, transparent); border-radius: .6rem; }
.knb-card dt { opacity: .65; }
.knb-card dd { margin: 0; overflow-wrap: anywhere; }
.knb-card dd strong { font-size: 1.15em; }
.knb-card .knb-note { display: block; opacity: .7; font-size: .9em; }
@media (max-width: 40rem) { .knb-card { grid-template-columns: 1fr; gap: .15rem; } .knb-card dd { margin: 0 0 .6rem; } }
"""
HEADINGS = {"fail": "is wrong", "pass": "is right", "unknown": "is not cleared", "skip": "was not run"}


def page(found: "Diagnosis") -> str:
    """Return the whole page."""
    parts = [card(found)]
    if found.culprits:
        parts.append(markup.table(found.table(), "Operators that are wrong, the largest effect on the output first"))
    if found.remedies:
        parts.append(markup.table([one.as_dict() for one in found.remedies], "Remedies, as they were tried"))
    if found.investigation is not None:
        parts.append(markup.table([found.investigation.as_dict()], "The run that was traced"))
    if found.bisection is not None:
        searches = [search.as_dict() for search in found.bisection.searches]
        parts.append(markup.table(searches, "The searches by bisection"))
    return markup.page(f"The export on {found.backend} {HEADINGS[found.verdict]}", parts)


def card(found: "Diagnosis") -> markup.Fragment:
    """Return what somebody reads who has ten seconds."""
    rows = list(_rows(found))
    html = "".join(f"<dt>{escape(term)}</dt><dd>{text}</dd>" for term, text, _ in rows)
    line = markup.line(found.verdict, found.statement)
    plain = "\n".join(f"{term}: {text}" for term, _, text in rows)
    return markup.Fragment(f'{line.html}<dl class="knb-card">{html}</dl>', f"{line.text}\n{plain}", STYLE)


def _rows(found: "Diagnosis") -> Iterator[tuple[str, str, str]]:
    """Yield what each row of the card is called, its HTML and its plain text."""
    if found.output is not None:
        yield _row("output", str(found.output).partition(" (limit")[0], _limit(found))
    if found.ranked:
        worst = found.ranked[0]
        yield _row("culprit", *_culprit(worst))
        others = len(found.ranked) - 1
        if others:
            yield _row("beside it", f"{others} more operator{'s' if others > 1 else ''}, in the table below", "")
        mechanism = worst.mechanism
        yield _row("mechanism", mechanism.name, str(mechanism))
        if mechanism.defect:
            yield _row("known defect", mechanism.defect, ", ".join(mechanism.threads))
    cure = next((one for one in found.remedies if one.verdict == "pass"), None)
    if cure is not None:
        figures = f"error of the output {markup.number(cure.error_before)} of its peak before, "
        yield _row("remedy", cure.statement, f"{figures}{markup.number(cure.error_after)} after")
    elif found.remedies:
        yield _row(
            "remedy", f"none of the {len(found.remedies)} that were tried brings the output within its limit", ""
        )
    if found.next_step:
        yield _row("excluded", "; ".join(found.excluded) or "nothing yet", "")
        yield _row("next step", found.next_step, "")
    yield _row("method", found.method, found.why)


def _limit(found: "Diagnosis") -> str:
    output = found.output
    if output is None or not output.limit >= 0:
        return ""
    return f"allowed are {markup.number(output.limit)} of the peak: {output.basis}"


def _culprit(worst: Culprit) -> tuple[str, str]:
    if worst.tap is None:
        return worst.statement, ""
    return worst.tap.name, " · ".join(filter(None, (worst.tap.op, worst.source, worst.channels, *worst.figures)))


def _row(term: str, text: str, note: str) -> tuple[str, str, str]:
    html = f"<strong>{escape(text)}</strong>" if term in ("culprit", "mechanism", "remedy") else escape(text)
    html += f'<span class="knb-note">{escape(note)}</span>' if note else ""
    return term, html, f"{text} ({note})" if note else text
