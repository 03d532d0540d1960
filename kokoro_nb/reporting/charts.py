"""Figures of numbers: bars, and tables of verdicts.

They follow the rules of `kokoro_nb.reporting.figures`: NaN and infinity are hatched and written out, and `weights` is
the label of the weights that a figure was made with.
"""

import math
from collections.abc import Mapping, Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from kokoro_nb.errors import InputError
from kokoro_nb.reporting.style import INK, NAN_MARK, ON_WHITE, REFERENCE, colours, compact, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_VERDICTS = {"pass": ("✓", "#CFE8F7"), "fail": ("✗", "#F7C6A8"), "unknown": ("?", "#E3E3E3"), "skip": ("–", "#F4F4F4")}


def log_bars(
    values: Mapping[str, float],
    unit: str,
    title: str = "",
    weights: str = "",
    notes: Mapping[str, str] | None = None,
    spreads: Mapping[str, tuple[float, float]] | None = None,
) -> "Figure":
    """Draw figures as bars on a logarithmic axis.

    Parameters
    ----------
    values : mapping of str to float
        What each bar is of, in `unit`; a zero is written "exact 0", NaN and infinity are hatched.
    unit : str
        What is measured, and its unit: the label of the axis.
    title, weights : str
        Title, and label of the weights.
    notes : mapping of str to str, optional
        What stands beside a bar; its figure by default.
    spreads : mapping of str to (float, float), optional
        Ends of the thin line over a bar.

    Raises
    ------
    InputError
        If there is no figure, or one is negative.
    """
    if not values:
        raise InputError("There are no figures to draw; give one at least.")
    for name, value in values.items():
        if value < 0:
            raise InputError(f"The figure of '{name}' is {value:g}; give magnitudes, of 0 or more.")
    spreads = spreads or {}
    known = [*values.values(), *(end for ends in spreads.values() for end in ends)]
    positive = [value for value in known if value > 0 and math.isfinite(value)] or [1.0]
    left, right = min(positive) / (10 if 0 in values.values() else 2), max(positive) * 10
    with new_figure(1.2 + 0.3 * len(values), title, weights) as figure:
        axes = figure.subplots()
        axes.set_xscale("log")
        axes.set_xlim(left, right)
        axes.grid(axis="x")
        for row, (name, value) in enumerate(values.items()):
            text, end = (notes or {}).get(name, compact(value)), left
            if value == 0:
                axes.plot(left, row, marker="D", markersize=6, color=REFERENCE, clip_on=False)
                text = "exact 0"
            elif math.isfinite(value):
                axes.barh(row, value - left, left=left, height=0.62, color=REFERENCE)
                low, end = spreads.get(name, (value, value))
                axes.plot([low, end], [row, row], color=INK, linewidth=1.5)
            else:
                axes.barh(row, right - left, left=left, height=0.62, **NAN_MARK)
            look: dict[str, Any] = {"xytext": (9, 0), "textcoords": "offset points", "va": "center", "bbox": ON_WHITE}
            axes.annotate(text, (end, row), **look)
        axes.set_yticks(range(len(values)), list(values))
        axes.set(ylim=(len(values) - 0.5, -0.5), xlabel=unit)
        axes.tick_params(axis="y", length=0, pad=9)
    return figure


def heat_map(
    values: Mapping[str, Mapping[str, float | str]],
    title: str = "",
    weights: str = "",
    unit: str = "",
    log: bool = False,
) -> "Figure":
    """Draw a table of verdicts, figures or both: one row per backend, say, and one column per question.

    Parameters
    ----------
    values : mapping of str to mapping of str to float or str
        Row -> column -> cell, every row with the columns of the first. A text that begins with a verdict (``pass``,
        ``fail``, ``unknown``, ``skip``) has the verdict's colour; a float has its place on one colour scale; NaN and
        infinity are hatched.
    title, weights : str
        Title, and label of the weights.
    unit : str
        What the floats are, and their unit.
    log : bool
        Whether the scale is logarithmic; a zero is then written "exact 0", without a colour.

    Raises
    ------
    InputError
        If the table is empty, a row has other columns than the first, or a figure on a logarithmic scale is negative.
    """
    from matplotlib.colors import to_rgba
    from matplotlib.patches import Rectangle

    rows, columns = list(values), list(next(iter(values.values()), ()))
    if not columns or any(line.keys() != {*columns} for line in values.values()):
        raise InputError("A table has one row at least, and each row a cell for every column of the first.")
    numbers = [float(cell) for line in values.values() for cell in line.values() if not isinstance(cell, str)]
    if log and any(number < 0 for number in numbers):
        raise InputError("A figure below 0 has no place on a logarithmic scale; use log=False.")
    known = [number for number in numbers if math.isfinite(number) and (number > 0 or not log)]
    scale = _colour_scale(known, log) if known else None
    wrap = max(8, 84 // len(columns))
    cells = [[_cell(line[column], scale, log) for column in columns] for line in values.values()]
    lines = max(fill(text, wrap).count("\n") + 1 for line in cells for text, _, _ in line)
    with new_figure(1.1 + (0.2 + 0.16 * lines) * len(rows), title, weights) as figure:
        axes = figure.subplots()
        for row, line in enumerate(cells):
            for column, (text, look, box) in enumerate(line):
                axes.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, **look))
                red, green, blue, _ = to_rgba(look["facecolor"])
                # relative luminance (WCAG 2), without its gamma
                ink = INK if 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.5 else "white"
                axes.text(column, row, fill(text, wrap), ha="center", va="center", color=ink, bbox=box)
        right, bottom = len(columns) - 0.5, len(rows) - 0.5
        axes.vlines(np.arange(len(columns) + 1) - 0.5, -0.5, bottom, "white", linewidth=2)
        axes.hlines(np.arange(len(rows) + 1) - 0.5, -0.5, right, "white", linewidth=2)
        axes.set(xlim=(-0.5, right), ylim=(bottom, -0.5))
        axes.set_xticks(range(len(columns)), [fill(column, wrap) for column in columns])
        axes.set_yticks(range(len(rows)), rows)
        axes.xaxis.tick_top()
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        if scale is not None:
            figure.colorbar(scale, ax=axes, pad=0.02, aspect=12)
            axes.set_xlabel(f"colour: {unit}" if unit else "")
    return figure


def _colour_scale(known: Sequence[float], log: bool) -> Any:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LogNorm, Normalize

    low, high = min(known), max(known)
    if low == high:
        low, high = (low / 10, high * 10) if log else (low - 1, high + 1)
    return ScalarMappable((LogNorm if log else Normalize)(low, high), colours("cividis"))


def _cell(cell: float | str, scale: Any, log: bool) -> tuple[str, dict[str, Any], dict[str, Any] | None]:
    """Return the text of a cell, its look, and the box behind the text; a verdict has a sign beside its colour."""
    plain: dict[str, Any] = {"facecolor": "white", "linewidth": 0}
    if isinstance(cell, str):
        sign, colour = _VERDICTS.get(cell.partition(" ")[0].rstrip(":,;"), ("", "white"))
        return f"{sign} {cell}".strip(), {**plain, "facecolor": colour}, None
    if not math.isfinite(cell):
        return compact(cell), NAN_MARK, ON_WHITE
    if log and cell == 0:
        return "exact 0", plain, None
    return compact(cell), {**plain, "facecolor": scale.to_rgba(cell)}, None
