"""One operator in full: statistics, channels, values and neighbours, as HTML that needs no script."""

from collections.abc import Callable
from html import escape
from typing import Any

import numpy as np

from kokoro_nb.markup import chip, number, table
from kokoro_nb.reporting.explorer.entries import Entries, Entry, columns, shape
from kokoro_nb.reporting.explorer.images import WIDTH, Strip, channel_statistics, histogram
from kokoro_nb.traces.operators import CONSTANT, INPUT

ONLY_STATISTICS = "Only its statistics were kept, not the tensor: take the trace with keep='full' to see more."
NAMED = 12  # channels that are named by number
Link = Callable[[str], str]


def detail(entries: Entries, name: str, link: Link, values: str) -> str:
    """Return the details of one operator.

    Parameters
    ----------
    entries : Entries
        All of them.
    name : str
        Which one.
    link : callable
        Makes the HTML of another operator's name.
    values : str
        HTML of its values: what `histogram_of` returns, or what asks for that.
    """
    entry = entries.by_name[name]
    parts = [_title(entry, len(entries.all)), _found(entry)]
    if entry.tap is None:
        parts.append("<p>It was not captured: the backend folded, fused or merged it. Nothing is known of it.</p>")
    else:
        parts += [_statistics(entry), _channels(entry), f"<h5>Values</h5>{values}"]
    return "".join([*parts, _neighbours(entries, entry, link)])


def histogram_of(entry: Entry) -> str:
    """Return the histogram of what was captured of an operator as HTML, or the reason why there is none."""
    if entry.tap is None or entry.tap.value is None:
        return f"<p>{escape(ONLY_STATISTICS)}</p>"
    values = np.asarray(entry.tap.value).reshape(-1)
    values, what = (np.abs(values), "magnitude") if values.dtype.kind == "c" else (values, "value")
    finite = values[np.isfinite(values)]
    if not finite.size:
        return "<p>No element is finite.</p>"
    lost = values.size - finite.size
    note = f"{number(finite.size)} finite elements" + (f"; {number(lost)} not finite are left out" if lost else "")
    ends = f"<span>{number(finite.min())}</span><span>{what}</span><span>{number(finite.max())}</span>"
    legend = f"{note}. The height of a bar is the logarithm of its count."
    return f'<figure class="knb-values">{histogram(finite)}<p class="knb-ends">{ends}</p><p>{legend}</p></figure>'


def _title(entry: Entry, count: int) -> str:
    about = f"{escape(entry.operator.op)} · {shape(entry.operator.shape)} · {escape(entry.operator.dtype)}"
    about += f" · {number(entry.place)} of {number(count)}"
    if entry.operator.module_path:
        about += f" · module {escape(entry.operator.module_path)}"
    verdict = f"{chip(entry.verdict)} " if entry.verdict else ""
    return f'<h4 class="knb-name">{verdict}{escape(entry.name)}</h4><p class="knb-about">{about}</p>'


def _found(entry: Entry) -> str:
    parts = [f"<p>{escape(culprit.statement)}</p>" for culprit in entry.culprits]
    causes = [escape(one.statement) for culprit in entry.culprits for one in culprit.mechanisms]
    if causes:
        parts.append(f"<p>Possible mechanisms: {'; '.join(dict.fromkeys(causes))}.</p>")
    figures = {}
    if entry.error is not None:
        figures = {"own error (of peak)": entry.error.of_peak, "as a multiple of rounding": entry.error.ratio}
    if entry.apart is not None:
        figures["with what it inherited (of peak)"] = entry.apart
    return "".join([*parts, _figures(figures)])


def _statistics(entry: Entry) -> str:
    assert entry.tap is not None
    measured = entry.tap.statistics
    figures: dict[str, Any] = {"finite %": entry.finite, "NaN": measured.nan, "infinite": measured.inf}
    figures |= {"minimum": measured.minimum, "maximum": measured.maximum, "mean": measured.mean, "rms": measured.rms}
    if not np.isnan(measured.margin):
        figures[f"room in {measured.dtype} (dB)"] = measured.margin
    first = "" if measured.first_index is None else f"<p>First element that is not finite: {measured.first_index}.</p>"
    return f"{_figures(figures)}{first}"


def _figures(figures: dict[str, Any]) -> str:
    """Return figures as pairs of a term and a number."""
    pairs = "".join(f"<div><dt>{escape(name)}</dt><dd>{number(value)}</dd></div>" for name, value in figures.items())
    return f'<dl class="knb-figures">{pairs}</dl>' if figures else ""


def _channels(entry: Entry) -> str:
    assert entry.tap is not None
    measured = entry.tap.statistics
    if len(measured.shape) < 2:
        return "<h5>Channels</h5><p>It has no axis of channels.</p>"
    if not all(measured.shape):
        return "<h5>Channels</h5><p>It has no elements.</p>"
    strips = _strips(entry)
    rows = "".join(
        f'<tr><th scope="row">{strip.name}</th><td>{strip.image()}</td><td>{strip.range}</td></tr>' for strip in strips
    )
    count = measured.shape[1]
    crowd = f"up to {-(-count // WIDTH)} to a column, the worst shown" if count > WIDTH else ""
    ends = f"<span>channel 0</span><span>{crowd}</span><span>{count - 1}</span>"
    scale = f'<tr><td></td><td><p class="knb-ends">{ends}</p></td><td></td></tr>'
    note = "" if entry.tap.value is not None else f"<p>{escape(ONLY_STATISTICS)}</p>"
    bad = "".join(
        f"<p>{escape(how.capitalize())} non-finite: {_numbered(channels)}.</p>"
        for how, channels in (("wholly", measured.channels_whole), ("partly", measured.channels_partly))
        if channels
    )
    return f'<h5>Channels</h5><table class="knb-channels"><tbody>{rows}{scale}</tbody></table>{bad}{note}'


def _strips(entry: Entry) -> list[Strip]:
    assert entry.tap is not None
    measured, value = entry.tap.statistics, entry.tap.value
    if value is None:
        return [Strip("finite", _known_finite(measured), "finite")]
    seen = channel_statistics(np.asarray(value))
    strips = [Strip("finite", seen["finite"], "finite")]
    if entry.error is not None and entry.error.wrong.size:
        same = entry.error.wrong.shape == np.shape(value)  # of a complex number either part may be wrong
        wrong = entry.error.wrong if same else np.asarray(entry.error.wrong.any(axis=-1))
        strips.append(Strip("wrong", channel_statistics(wrong)["mean"], "wrong"))
    strips += [Strip("mean", seen["mean"], "signed"), Strip("rms", seen["rms"], "size")]
    if entry.reference is not None:
        with np.errstate(invalid="ignore", over="ignore"):
            gap = np.subtract(value, entry.reference, dtype=np.result_type(value, entry.reference, np.float32))
        strips.append(Strip("difference, rms", channel_statistics(gap)["rms"], "size"))
    return strips


def _known_finite(measured: Any) -> np.ndarray:
    """Return the share that is finite by channel as far as statistics tell, NaN of one that is partly so."""
    share = np.ones(measured.shape[1])
    share[list(measured.channels_whole)] = 0.0
    share[list(measured.channels_partly)] = np.nan
    return share


def _numbered(channels: tuple[int, ...]) -> str:
    named = ", ".join(map(str, channels[:NAMED]))
    return named if len(channels) <= NAMED else f"{named} and {number(len(channels) - NAMED)} more"


def _neighbours(entries: Entries, entry: Entry, link: Link) -> str:
    read, readers = dict.fromkeys(entry.operator.inputs), entries.readers.get(entry.name, ())
    sides = (("Computed from", tuple(read), "nothing"), ("Read by", readers, "no operator that was requested"))
    lists = []
    for head, names, none in sides:
        items = "".join(f"<li>{_neighbour(entries, name, link)}</li>" for name in names) or f"<li>{none}</li>"
        lists.append(f"<div><h5>{head}</h5><ul>{items}</ul></div>")
    return f'<div class="knb-neighbours">{"".join(lists)}</div>'


def _neighbour(entries: Entries, name: str, link: Link) -> str:
    for prefix, what in ((INPUT, "input"), (CONSTANT, "constant")):
        if name.startswith(prefix):
            return f'<span class="knb-about">{what}</span> {escape(name.removeprefix(prefix))}'
    other = entries.by_name.get(name)
    if other is None:
        return f'{escape(name)} <span class="knb-about">not requested</span>'
    verdict = f"{chip(other.verdict)} " if other.verdict else ""
    state = "not captured" if other.tap is None else other.tap.statistics.pattern if other.broken else ""
    note = f' <span class="knb-about">{escape(state)}</span>' if state else ""
    return f"{verdict}{link(name)}{note}"


def overview(entries: Entries, count: int) -> str:
    """Return the operators to look at first, as a table and one by one, as HTML that needs no script.

    Parameters
    ----------
    entries : Entries
        All of them.
    count : int
        How many are shown.
    """
    worst = entries.worst(count)
    rows = [{column.head: column.value(entry) for column in columns(entries)} for entry in worst]
    head = f"<p>{escape(entries.summary)}. The {number(len(worst))} to look at first:</p>"
    opened = [
        f'<details class="knb-operator"><summary>{escape(entry.name)}</summary>'
        f'<div class="knb-detail">{detail(entries, entry.name, _code, histogram_of(entry))}</div></details>'
        for entry in worst
    ]
    return f'<div class="knb knb-explorer knb-still">{head}{table(rows).html}{"".join(opened)}</div>'


def _code(name: str) -> str:
    return f"<code>{escape(name)}</code>"
