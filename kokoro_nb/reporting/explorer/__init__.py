"""An explorer of a trace: a table of its operators to sort and filter, and each of them in full."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, reduce
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from kokoro_nb.errors import InputError
from kokoro_nb.markup import Fragment, number, resource, table
from kokoro_nb.reporting.fragments import rendered
from kokoro_nb.reporting.style import NAN_MARK, REFERENCE, colours, encode_png
from kokoro_nb.storage import json_ready
from kokoro_nb.traces.statistics import largest, of_peak
from kokoro_nb.traces.trace import CONSTANT, INPUT, Operator, Tap, Trace

if TYPE_CHECKING:
    from kokoro_nb.locate.culprit import Culprit
    from kokoro_nb.locate.investigation import Investigation
    from kokoro_nb.locate.local_error import LocalError

VIEW = "application/vnd.jupyter.widget-view+json"
ONLY_STATISTICS = "Only its statistics were kept, not the tensor: take the trace with keep='full' to see more."
WORST = 8  # operators in the form that needs no kernel
WIDTH, TALL, BINS = 720, 96, 90  # of images, pixels, and bars of a histogram
TEXTS = ("operator", "verdict", "shape", "dtype")  # columns that hold no figures
COLUMNS = {
    "#": ("place", "Place in the order of execution"),
    "operator": ("name", "Path of the module that calls it, and the operator"),
    "verdict": ("verdict", "Whether it is right, given what it read"),
    "× rounding": ("error.ratio", "Its own error, as a multiple of the rounding-error bound"),
    "own error": ("error.of_peak", "Its own error on its own inputs, of the peak"),
    "with inherited": ("apart", "Largest difference from the reference, of its peak"),
    "finite %": ("finite", "Share of the elements that are finite"),
    "min": ("tap.statistics.minimum", "Smallest finite element"),
    "max": ("tap.statistics.maximum", "Largest finite element"),
    "mean": ("tap.statistics.mean", "Mean of the finite elements"),
    "rms": ("tap.statistics.rms", "Root mean square of the finite elements"),
    "shape": ("shape", "Shape of the result"),
    "dtype": ("operator.dtype", "Dtype of the result"),
}
"""The columns of the table of operators: what of an `Entry` stands in each, and what that is."""


@dataclass(frozen=True, eq=False)
class Entry:
    """One operator.

    Attributes
    ----------
    place : int
        Its place in the order of execution, from 1.
    operator : Operator
        The operator.
    tap : Tap or None
        Its captured result; None where it could not be captured.
    error : LocalError or None
        Its local error, where it was measured.
    reference : numpy.ndarray, of the operator's shape, or None
        The reference's result, where both tensors were kept.
    apart : float or None
        Largest difference from it, of its peak: local and inherited error together.
    culprits : tuple of Culprit
        Culprits that a localisation found in it.
    """

    place: int
    operator: Operator
    tap: Tap | None = None
    error: "LocalError | None" = None
    reference: np.ndarray | None = None
    apart: float | None = None
    culprits: "tuple[Culprit, ...]" = ()

    @property
    def name(self) -> str:
        """Name of the operator."""
        return self.operator.name

    @property
    def verdict(self) -> str:
        """``fail``, ``unknown`` or ``pass``, and ``""`` of what was captured and neither judged nor found."""
        verdicts = {culprit.verdict for culprit in self.culprits}
        if "fail" in verdicts or (self.error is not None and self.error.unexplained):
            return "fail"
        if self.error is not None:
            return "pass"
        return "unknown" if self.tap is None or verdicts else ""

    @property
    def finite(self) -> float | None:
        """Percent of the elements that are finite, below 100 unless all are; None of what was not captured."""
        if self.tap is None:
            return None
        share = self.tap.statistics.finite
        return min(100 * share, 99.99) if share < 1 else 100 * share

    @property
    def broken(self) -> bool:
        """Whether it was captured and some of it is not finite."""
        return self.tap is not None and self.tap.statistics.finite < 1

    @property
    def urgency(self) -> tuple[float, ...]:
        """Sort key that puts the operator to look at first in front."""
        ratio = -math.inf if self.error is None else self.error.ratio
        apart = -math.inf if self.apart is None else math.inf if math.isnan(self.apart) else self.apart
        room = math.inf if self.tap is None or math.isnan(self.tap.statistics.margin) else self.tap.statistics.margin
        return (-(self.verdict == "fail"), -self.broken, -(self.verdict == "unknown"), -ratio, -apart, room, self.place)

    @property
    def shape(self) -> str:
        """Its shape in words."""
        return " × ".join(map(str, self.operator.shape)) or "one number"

    def cell(self, head: str) -> Any:
        """Return what stands in a column of the table; None or ``""`` of what is not known."""
        found: Any = self
        return reduce(lambda one, name: getattr(one, name, None), COLUMNS[head][0].split("."), found)


@dataclass(frozen=True, eq=False)
class Entries:
    """The operators of a trace, captured or requested, in the order of execution."""

    trace: Trace
    all: tuple[Entry, ...]

    @cached_property
    def by_name(self) -> Mapping[str, Entry]:
        """The operators by name."""
        return {entry.name: entry for entry in self.all}

    @cached_property
    def readers(self) -> Mapping[str, list[str]]:
        """Names of the operators that read the result of an operator, by its name."""
        found: dict[str, list[str]] = {}
        for entry in self.all:
            for name in dict.fromkeys(entry.operator.inputs):
                found.setdefault(name, []).append(entry.name)
        return found

    @property
    def summary(self) -> str:
        """What was captured and found, in one line."""
        captured, broken = sum(one.tap is not None for one in self.all), sum(one.broken for one in self.all)
        text = f"{number(captured)} captured, {number(len(self.all) - captured)} not captured"
        text += f", {number(broken)} not finite"
        if any(entry.error is not None or entry.culprits for entry in self.all):
            wrong = sum(entry.verdict == "fail" for entry in self.all)
            text += f", {number(wrong)} wrong by {'itself' if wrong == 1 else 'themselves'}"
        how = f" ({self.trace.how})" if self.trace.how else ""
        return f"{self.trace.backend}{how}: {number(len(self.all))} operators, {text}"


def collect(
    trace: Trace,
    findings: "Sequence[Culprit | None]" = (),
    reference: Trace | None = None,
    errors: "Sequence[LocalError]" = (),
) -> Entries:
    """Collect what is known of each operator.

    Parameters
    ----------
    trace : Trace
        What was captured.
    findings : sequence of Culprit or None
        What a localisation found in it.
    reference : Trace, optional
        The same operators computed right, by name.
    errors : sequence of LocalError
        Local errors that were measured.

    Raises
    ------
    InputError
        If the trace has no operators.
    """
    operators = trace.requested or tuple(tap.operator for tap in trace.taps)
    if not operators:
        raise InputError("The trace has no operators to explore; take it with some taps.")
    taps = {tap.name: tap for tap in trace.taps}
    judged = {error.operator.name: error for error in errors}
    known = {} if reference is None else reference.values
    entries = []
    for place, operator in enumerate(operators, 1):
        tap, right = taps.get(operator.name), known.get(operator.name)
        if tap is None or tap.value is None or right is None or right.shape != tap.statistics.shape:
            right = apart = None
        else:
            gap, peak = map(largest, (_gap(tap.value, right), _gap(right, 0)))
            apart = of_peak(gap, peak)
        culprits = tuple(one for one in findings if one is not None and one.name == operator.name)
        entries.append(Entry(place, operator, tap, judged.get(operator.name), right, apart, culprits))
    return Entries(trace, tuple(entries))


def _gap(one: Any, other: Any) -> np.ndarray:
    """Return the difference of two results, of which integers and truth values do not wrap."""
    with np.errstate(invalid="ignore", over="ignore"):
        return np.subtract(one, other, dtype=np.result_type(one, other, np.float32))


def rows(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """Return a row for each operator, with the columns that have a value in any."""
    heads = [head for head in COLUMNS if any(entry.cell(head) not in (None, "") for entry in entries)]
    return [{head: entry.cell(head) for head in heads} for entry in entries]


def explore(found: "Trace | Investigation") -> Any:
    """Return the operators of a trace for a notebook to show: a widget in JupyterLab, plain HTML where no kernel runs.

    Choosing an operator shows its statistics, a map of its channels, a histogram of its values, what it was computed
    from and who reads it; maps by statistic and histograms need the tensors (``keep='full'``). Of an investigation each
    has its own error, the distance to the reference, and what was found in it.

    Raises
    ------
    InputError
        If the trace has no operators.
    """
    if isinstance(found, Trace):
        return widget_class()(collect(found))
    return widget_class()(collect(found.candidate, (found.nonfinite, *found.faults), found.reference, found.errors))


@cache
def widget_class() -> Any:
    """Return the class of the widget; made on first use, so that importing this module does not import anywidget."""
    import traitlets
    from anywidget import AnyWidget

    class Explorer(AnyWidget):
        """A table of operators; where no kernel runs, the ones to look at first as HTML."""

        _esm = resource("reporting/explorer/explorer.js")
        _css = resource("markup.css") + resource("reporting/explorer/explorer.css")
        operators = traitlets.Dict().tag(sync=True)

        def __init__(self, entries: Entries) -> None:
            super().__init__(operators=payload(entries))
            self._entries = entries
            self.on_msg(self._reply)

        def _reply(self, _: Any, question: Any, buffers: Any) -> None:
            self.send({"question": question, "html": answer(self._entries, question)})

        def _ipython_display_(self) -> None:
            """Show the widget, and beneath it the form without a kernel, which hides where the widget lives."""
            from IPython.display import display

            display({VIEW: {"version_major": 2, "version_minor": 0, "model_id": self.model_id}}, raw=True)
            display(still(self._entries))

        def __repr__(self) -> str:
            return self._entries.summary

    return Explorer


def payload(entries: Entries) -> dict[str, Any]:
    """Return the table as JSON can hold it: columns, and a list of values per operator; what is not finite by name."""
    made = rows(entries.all)
    columns = [{"head": head, "title": COLUMNS[head][1], "figures": head not in TEXTS} for head in made[0]]
    return {"summary": entries.summary, "columns": columns, "rows": [json_ready(list(row.values())) for row in made]}


def still(entries: Entries) -> Fragment:
    """Return the form that a page without a kernel shows: the operators to look at first, in a table and one by one."""
    worst = sorted(entries.all, key=lambda entry: entry.urgency)[:WORST]
    opened = "".join(
        f'<details class="knb-operator"><summary>{escape(entry.name)}</summary>'
        f'<div class="knb-detail">{_detail(entries, entry)}</div></details>'
        for entry in worst
    )
    head = f"<p>{escape(entries.summary)}. The {number(len(worst))} to look at first:</p>{table(rows(worst)).html}"
    html = f'<div class="knb knb-explorer knb-still">{head}{opened}</div>'
    return Fragment(html, entries.summary, resource("reporting/explorer/explorer.css"))


def answer(entries: Entries, question: Any) -> str:
    """Return the HTML of the operator whose ``name`` a question of the page gives; ``""`` where it gives none."""
    name = question.get("name") if isinstance(question, dict) else None
    entry = entries.by_name.get(name) if isinstance(name, str) else None
    return "" if entry is None else _detail(entries, entry, live=True)


def _detail(entries: Entries, entry: Entry, live: bool = False) -> str:
    """Return one operator in full; `live` makes its neighbours buttons."""
    operator, errors, statistics = entry.operator, dict[str, Any](), dict[str, Any]()
    about = [operator.op, entry.shape, operator.dtype, f"{number(entry.place)} of {number(len(entries.all))}"]
    about += [f"module {operator.module_path}"] if operator.module_path else []
    if entry.error is not None:
        errors = {"own error (of peak)": entry.error.of_peak, "as a multiple of rounding": entry.error.ratio}
    if entry.apart is not None:
        errors["with what it inherited (of peak)"] = entry.apart
    if entry.tap is not None:
        one = entry.tap.statistics
        statistics = {"finite %": entry.finite, "NaN": one.nan, "infinite": one.inf, "minimum": one.minimum}
        statistics |= {"maximum": one.maximum, "mean": one.mean, "rms": one.rms}
        statistics |= {} if np.isnan(one.margin) else {f"room in {one.dtype} (dB)": one.margin}
    causes = dict.fromkeys(one.statement for culprit in entry.culprits for one in culprit.mechanisms)
    readers, none = entries.readers.get(entry.name, []), "no operator that was requested"
    sides = (("Computed from", dict.fromkeys(operator.inputs), "nothing"), ("Read by", readers, none))
    count = operator.shape[1] if len(operator.shape) > 1 else 0
    crowd = f"up to {-(-count // WIDTH)} to a column, the worst shown" if count > WIDTH else ""
    given = {"entries": entries, "entry": entry, "live": live, "input": INPUT, "constant": CONSTANT}
    given["values"] = _histogram(entry)
    given |= {"about": about, "errors": errors, "statistics": statistics, "causes": causes, "sides": sides}
    return rendered("operator.html.j2", **given, strips=_strips(entry), crowd=crowd, only_statistics=ONLY_STATISTICS)


def _strips(entry: Entry) -> list[tuple[str, str, str]]:
    """Return a strip of colour for each statistic by channel; none of what has no tensor, or no channels."""
    if entry.tap is None or entry.tap.value is None or np.ndim(entry.tap.value) < 2 or not np.size(entry.tap.value):
        return []
    value = np.asarray(entry.tap.value)
    seen = by_channel(value)
    strips = [strip("finite", seen["finite"], "OrRd_r", 0.0, 1.0)]
    if entry.error is not None and entry.error.wrong.size:
        same = entry.error.wrong.shape == value.shape  # of a complex number either part may be wrong
        wrong = entry.error.wrong if same else np.asarray(entry.error.wrong.any(axis=-1))
        strips.append(strip("wrong", by_channel(wrong)["mean"], "OrRd", 0.0, 1.0))
    strips += [strip("mean", seen["mean"], "RdBu_r", None), strip("rms", seen["rms"], "cividis", 0.0)]
    if entry.reference is not None:
        gap = _gap(value, entry.reference)
        strips.append(strip("difference, rms", by_channel(gap)["rms"], "cividis", 0.0))
    return strips


def by_channel(values: np.ndarray) -> dict[str, np.ndarray]:
    """Return share finite, mean and root mean square of the finite magnitudes or values by channel, axis 1."""
    rows = np.moveaxis(values, 1, 0).reshape(values.shape[1], -1)
    finite = np.isfinite(rows)
    known = np.where(finite, np.abs(rows) if rows.dtype.kind == "c" else rows, 0).astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        count = finite.sum(axis=1)
        mean, rms = known.sum(axis=1) / count, np.sqrt((known**2).sum(axis=1) / count)
    return {"finite": count / rows.shape[1], "mean": mean, "rms": rms}


def strip(
    name: str, values: np.ndarray, colour_map: str, low: float | None, high: float | None = None
) -> tuple[str, str, str]:
    """Return the name of a statistic, its image, and its range: a column per channel, striped where it is not finite.

    Without `low` the scale is as long below 0 as above; without `high` it ends at the largest magnitude. Where many
    channels share a column, the worst is shown: the largest value, of what is finite the smallest.
    """
    known = values[np.isfinite(values)]
    top = high or largest(known) or 1.0
    bottom = -top if low is None else low
    if values.size > WIDTH:
        edges = np.arange(WIDTH) * values.size // WIDTH
        values = (np.minimum if name == "finite" else np.maximum).reduceat(values, edges)
    pixels = colours(colour_map)(np.ma.masked_invalid((values - bottom) / (top - bottom)), bytes=True)[None, :, :3]
    stripes = [[[*bytes.fromhex(NAN_MARK[side][1:])]] for side in ("facecolor", "edgecolor")] * 3
    pixels = np.where(np.isnan(values)[None, :, None], np.array(stripes, np.uint8), pixels)
    ends = list(dict.fromkeys(map(number, (known.min(), known.max())))) if known.size else ["not finite"]
    about = " to ".join(ends)
    return name, _image(pixels, f"{name} by channel: {about}", "knb-strip"), about


def _histogram(entry: Entry) -> str:
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
    counts, edges = np.histogram(finite.astype(np.float64), BINS)
    heights = np.ceil(TALL * np.log1p(counts) / np.log1p(counts.max()))
    columns = np.repeat(np.arange(TALL)[::-1, None] < heights, WIDTH // BINS, axis=1)
    columns[:, WIDTH // BINS - 1 :: WIDTH // BINS] = False  # a gap between the bars
    picture = np.zeros((*columns.shape, 4), np.uint8)
    picture[columns] = (*bytes.fromhex(REFERENCE[1:]), 255)
    about = f"Histogram from {number(edges[0])} to {number(edges[-1])}; the tallest of {BINS} bars: {counts.max()}"
    bars = _image(picture, about, "knb-histogram")
    return f'<figure class="knb-values">{bars}<p class="knb-ends">{ends}</p><p>{legend}</p></figure>'


def _image(pixels: np.ndarray, about: str, kind: str) -> str:
    return f'<img class="{kind}" alt="{escape(about)}" src="data:image/png;base64,{encode_png(pixels)}">'
