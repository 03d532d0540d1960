"""Pieces of HTML that a notebook shows and a report shows again: figures, chips of verdicts, lines, tables.

Everything that is shown is escaped: names of modules and messages of errors are other people's words.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

ORDER = ("fail", "unknown", "skip", "pass")
"""Verdicts, as a reader wants to see them."""


ROOM = 120  # characters that stand beside one another on a page
WORDS = 26  # characters of a text that stand in one line of a column
LONG = 60  # characters, from which a column of a table is not made narrower than half of that


@cache
def resource(path: str) -> str:
    """Return the text of a style sheet, template or script of this package; `path` is relative to it."""
    return files("kokoro_nb").joinpath(path).read_text(encoding="utf-8")


@dataclass(frozen=True)
class Fragment:
    """A piece of HTML with the plain text that stands for it where HTML cannot be shown.

    Attributes
    ----------
    html : str
        The piece; whoever makes it escapes what it holds.
    text : str
        What is shown in its place.
    style : str
        What it needs of CSS beside ``markup.css``.
    """

    html: str
    text: str
    style: str = ""

    def _repr_html_(self) -> str:
        return f"<style>{resource('markup.css')}{self.style}</style>{self.html}"

    def __repr__(self) -> str:
        return self.text


def number(value: Any) -> str:
    """Return a figure as a reader wants it: four significant digits, thousands apart, NaN and infinity by name.

    >>> number(0.99812), number(6.96e-7), number(-52013.0), number(float("nan")), number(24000)
    ('0.9981', '6.96e-7', '-52,013', 'NaN', '24,000')
    """
    value = float(value)
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else f"{'-' if value < 0 else ''}∞"
    if value == int(value) and abs(value) < 1e9:
        return f"{int(value):,}"
    if 1e-3 <= abs(value) < 1e6:
        return f"{value:.4g}" if abs(value) < 9999.5 else f"{value:,.0f}"
    mantissa, exponent = f"{value:.3e}".split("e")
    return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"


def listed(names: Iterable[str]) -> str:
    """Return the first five names, and how many more there are."""
    names = list(names)
    return ", ".join(names[:5]) + (f" and {len(names) - 5:,} more" if len(names) > 5 else "")


def chip(verdict: str, word: str = "") -> str:
    """Return the small coloured label of a verdict; the word carries the meaning, the colour repeats it."""
    return f'<span class="knb-chip knb-{escape(verdict)}">{escape(word or verdict)}</span>'


def line(verdict: str, statement: str, notes: Sequence[str] = ()) -> Fragment:
    """Return a statement behind the chip of its verdict, and notes behind it."""
    html = "".join(f' <span class="knb-note">{escape(note)}</span>' for note in notes)
    kind = "knb-line knb-failed" if verdict == "fail" else "knb-line"
    html = f'<p class="knb {kind}">{chip(verdict)} {escape(statement)}{html}</p>'
    return Fragment(html, " · ".join([f"{verdict.upper()}: {statement}", *notes]))


PAGE = """
:root { color-scheme: light dark; }
body { margin: 0 auto; max-width: 72rem; padding: 2rem 1.5rem; font: 1rem/1.6 system-ui, sans-serif; }
h1 { font-size: 1.5rem; line-height: 1.3; margin: 0 0 1rem; }
"""


def page(title: str, parts: Sequence[Fragment]) -> str:
    """Return a whole HTML page of these pieces that loads nothing from elsewhere."""
    styles = "".join(dict.fromkeys((PAGE, resource("markup.css"), *(part.style for part in parts))))
    body = "".join(part.html for part in parts)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{styles}</style></head>'
        f"<body><main><h1>{escape(title)}</h1>{body}</main></body></html>\n"
    )


def scrolling(html: str) -> str:
    """Put what may be too wide for the page where it scrolls, by keyboard too."""
    return f'<div class="knb knb-scroll" tabindex="0">{html}</div>'


def table(rows: Sequence[Mapping[str, Any]], caption: str = "") -> Fragment:
    """Return a table of `rows` that fits a page: columns as they first appear, figures aligned right.

    What does not fit beside the first column and the verdicts folds away below, as do columns that hold one value in
    each of three rows or more.

    Parameters
    ----------
    rows : sequence of mappings
        Column -> value; a column may be absent from a row. Figures get four digits, verdicts their chip, a `Fragment`
        its HTML.
    caption : str
        Text below the table.
    """
    if not rows:
        text = f"{caption}. No rows." if caption else "No rows."
        return Fragment(f'<p class="knb knb-note">{escape(text)}</p>', text)
    names = dict.fromkeys(name for row in rows for name in row)
    first, *others = (_Column.of(str(name), [row.get(name) for row in rows]) for name in names)
    same = [one for one in others if len(rows) > 2 and len(set(one.texts)) == 1 and not one.verdicts]
    left = [one for one in others if one not in same]
    ahead = [one for one in left if one.verdicts]
    parts = [[first]]
    room = ROOM - sum(one.width for one in (first, *ahead))
    for one in left:
        if not one.verdicts and (room := room - one.width) < 0 and len(parts[-1]) > 1:
            parts.append([first])
            room = ROOM - first.width - one.width
        parts[0 if one.verdicts else -1].append(one)
    notes = [caption, *(f"{one.name}: {one.texts[0] or 'none'} in each row" for one in same)]
    html = _html(parts[0], "; ".join(filter(None, notes)))
    if parts[1:]:
        more = ", ".join(one.name for part in parts[1:] for one in part[1:])
        tables = "".join(_html(part, "") for part in parts[1:])
        html += f'<details class="knb knb-more"><summary>More columns: {escape(more)}</summary>{tables}</details>'
    lines = zip(*(one.aligned for one in (first, *others)), strict=True)
    return Fragment(html, "\n".join("  ".join(cells).rstrip() for cells in lines))


@dataclass(frozen=True, eq=False)
class _Column:
    name: str
    texts: list[str]
    cells: list[str]
    kind: str
    verdicts: bool

    @classmethod
    def of(cls, name: str, values: Sequence[Any]) -> "_Column":
        texts = _texts(values)
        wide = ' class="knb-long"' if any(len(text) > LONG for text in texts) else ""
        kind = ' class="knb-number"' if any(map(_is_number, values)) else wide
        cells = [f"<td{kind}>{_cell(value, text)}</td>" for value, text in zip(values, texts, strict=True)]
        return cls(name, texts, cells, kind, any(text in ORDER for text in texts))

    @property
    def aligned(self) -> list[str]:
        """Its name and its texts, as wide as the widest: figures to the right."""
        side = str.rjust if "number" in self.kind else str.ljust
        width = max(map(len, (self.name, *self.texts)))
        return [side(text, width) for text in (self.name, *self.texts)]

    @property
    def width(self) -> int:
        """How many characters of a line it takes, with the space beside it; what is longer breaks."""
        word = max(map(len, self.name.split()), default=0)
        longest = max(map(len, self.texts))
        return 3 + max(word, longest if "number" in self.kind else min(longest, WORDS))


def _html(columns: Sequence[_Column], caption: str) -> str:
    head = "".join(f'<th scope="col"{one.kind}>{escape(one.name)}</th>' for one in columns)
    body = "".join(f"<tr>{''.join(cells)}</tr>" for cells in zip(*(one.cells for one in columns), strict=True))
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    return scrolling(f'<table class="knb-table">{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>')


def _is_number(value: Any) -> bool:
    return hasattr(value, "__float__") and not isinstance(value, bool) and getattr(value, "ndim", 0) == 0


def _texts(values: Sequence[Any]) -> list[str]:
    """Return the text of each value of a column; figures of like size get as many decimals each, to stand aligned."""
    sizes = [abs(float(value)) for value in values if _is_number(value) and math.isfinite(value) and value]
    decimals = None
    if sizes and min(sizes) >= 1e-3 and max(sizes) < 1e5 and max(sizes) / min(sizes) < 100:
        decimals = 0 if all(size == int(size) for size in sizes) else max(0, 3 - math.floor(math.log10(max(sizes))))
    return [_text(value, decimals) for value in values]


def _text(value: Any, decimals: int | None) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not _is_number(value):
        return str(value)
    fixed = decimals is not None and math.isfinite(value) and value  # what is exactly 0 must not look rounded
    return f"{float(value):,.{decimals}f}" if fixed else number(value)


def _cell(value: Any, text: str) -> str:
    if isinstance(value, Fragment):
        return value.html
    if isinstance(value, str) and value in ORDER:
        return chip(value)
    bad = _is_number(value) and not math.isfinite(value)
    return f'<strong class="knb-nonfinite">{escape(text)}</strong>' if bad else escape(text)
