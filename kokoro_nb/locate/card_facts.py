"""Cards, and what one says of a wrong export, from its record: the culprit, why, what is known of it, what cures it."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from html import escape
from typing import Any

from kokoro_nb.markup import Fragment, number

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Fact:
    """A row of a card.

    Attributes
    ----------
    term, text : str
        What it is called, and what it says.
    notes : tuple of str
        What supports that; empty ones are left out.
    html : str
        Its text with links or code; empty where it is shown as it is.
    """

    term: str
    text: str
    notes: tuple[str, ...] = ()
    html: str = ""


def facts_card(head: Fragment, facts: Iterable[Fact], foot: str = "") -> Fragment:
    """Return what somebody reads who has ten seconds: a head, a row for each fact, and HTML at its foot."""
    rows, lines = [], [head.text]
    for fact in facts:
        notes = [note for note in fact.notes if note]
        small = "".join(f'<span class="knb-reason">{escape(note)}</span>' for note in notes)
        rows.append(f"<div><dt>{escape(fact.term)}</dt><dd>{fact.html or escape(fact.text)}{small}</dd></div>")
        lines += [f"  {fact.term}: {fact.text}", *(f"      {note}" for note in notes)]
    return Fragment(f'<div class="knb knb-card">{head.html}<dl>{"".join(rows)}</dl>{foot}</div>', "\n".join(lines))


def card_facts(row: Row, whole: bool = False) -> Iterator[Fact]:
    """Yield what is wrong, why, what is known of it, what cures it and what to do next; nothing of what is right.

    Parameters
    ----------
    row : mapping
        What `Diagnosis.row` returned, also as read from JSON.
    whole : bool
        Every culprit and every remedy that was tried, in place of the first and of the one that cures it.
    """
    if row.get("verdict") == "pass":
        return
    culprits, failure, known = row.get("culprits") or [], row.get("failure"), row.get("known")
    shown = culprits if whole else culprits[:1]
    if failure:
        yield Fact("export", f"It failed when {failure['rung']}.")
    if failure and not culprits:
        named, line = failure.get("operator"), failure.get("line of the model")
        yield _operator(named, "", line) if named else Fact("culprit", line or "The message names no operator.")
    elif not culprits:
        yield Fact("culprit", f"No single operator is named. {row.get('statement', '')}")
    for one in shown:
        notes = (one.get("channels"), *(one.get("figures") or ()))
        yield _operator(str(one.get("tap")), str(one.get("op")), one.get("source"), *filter(None, notes))
        mechanism = one.get("mechanism") or {"name": "unknown"}
        yield _mechanism(mechanism)
        if whole and mechanism.get("known defect"):
            yield _known({"name": mechanism["known defect"], "threads": mechanism["threads"]})
    others = int(row.get("count", len(culprits))) - len(shown)
    if others > 0:
        yield Fact("beside it", f"{others} other operator{'s are' if others > 1 else ' is'} wrong, too")
    if known and not (whole and culprits):
        yield _known(known)
    elif not whole:
        yield Fact("known defect", "No known defect of the tool.")
    remedies = row.get("remedies") or []
    cures = [one for one in remedies if one.get("verdict") == "pass"]
    for one in remedies if whole else cures[:1]:
        yield _remedy(one, bool(failure))
    if not cures:
        tried = ", ".join(str(one.get("remedy")) for one in remedies)
        yield Fact("remedy", f"None found; tried: {tried}." if tried else "None tried.")
    if row.get("next step"):
        yield Fact("excluded", "; ".join(row.get("excluded") or ()) or "nothing yet")
        yield Fact("next step", str(row["next step"]))


def _operator(name: str, op: str, line: Any, *notes: str) -> Fact:
    path, _, kind = name.partition(":")
    code = [f"<code>{escape(part)}</code>" for part in (path or "(the module itself)", kind) if part]
    line = str(line or "")
    about = " · ".join(filter(None, (op, line)))
    html = " · ".join([*code, *filter(None, [escape(line)])])
    return Fact("culprit", f"{name} ({about})" if about else name, notes, html)


def _mechanism(mechanism: Row) -> Fact:
    name = mechanism["name"]
    if name == "unknown":
        return Fact("mechanism", "No mechanism that we know explains it.")
    said = f": {mechanism['statement']}"
    html = f"<strong>{escape(name)}</strong>{escape(said)}"
    return Fact("mechanism", f"{name}{said}", ("; ".join(mechanism.get("evidence") or ()),), html)


def _known(known: Row) -> Fact:
    name, title, threads = str(known.get("name")), str(known.get("title") or ""), known.get("threads") or ()
    links = [
        f'<a href="https://github.com/{escape(str(one).replace("#", "/issues/", 1))}">{escape(str(one))}</a>'
        for one in threads
    ]
    text = ", ".join([f"{name}: {title}" if title else name, *map(str, threads)])
    return Fact("known defect", text, html=", ".join([f"{escape(title)} <code>{escape(name)}</code>", *links]))


def _remedy(remedy: Row, failed: bool) -> Fact:
    before, after = (figure(remedy.get(f"output {side} (of peak)")) for side in ("before", "after"))
    figures = f"error of the output {'not exported' if failed else _error(before)} → {_error(after)}"
    measured = f"{remedy['remedy']} ({remedy['kind']}), {remedy['verdict']}: {figures}"
    return Fact("remedy", str(remedy["what is changed"]), (measured, str(remedy.get("note") or "")))


def _error(value: float | None) -> str:
    return "not measured" if value is None else "NaN" if math.isnan(value) else f"{percent(value)} of its peak"


def percent(share: float) -> str:
    """Return a share in percent, to two digits."""
    return f"{number(float(f'{100 * share:.2g}'))} %"


def figure(value: Any) -> float | None:
    """Return a figure of a findings file, where what is not finite is written as a word."""
    return None if value is None else float(value)
