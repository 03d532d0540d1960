"""Figures with a curve per signal, and of numbers: effects of patches, and tables of verdicts.

They follow the rules of `kokoro_nb.reporting.figures`: NaN and infinity are hatched and written out, and `weights` is
the label of the weights that a figure was made with.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from kokoro_nb.errors import InputError
from kokoro_nb.listening import spectrum
from kokoro_nb.listening.comparison import f0_contour
from kokoro_nb.listening.joins import Join, short_time_level
from kokoro_nb.listening.waveform import Signal, as_signal, finite_fraction, percent_finite
from kokoro_nb.reporting.style import (
    CANDIDATES,
    FAINT,
    INK,
    NAN_MARK,
    ON_WHITE,
    REFERENCE,
    colours,
    compact,
    legend_above,
    new_figure,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_VERDICTS = {"pass": "#CFE8F7", "fail": "#F7C6A8", "unknown": "#E3E3E3", "skip": "#F4F4F4"}
Curve = tuple[Any, Any, str]  # its points, and what the legend says of it
_SIGNS = {"pass": "✓", "fail": "✗", "unknown": "?", "skip": "–"}


def patch_effects(
    effects: Mapping[str, float], unit: str, title: str = "Effect of each patch", weights: str = ""
) -> "Figure":
    """Draw one effect per patch as a bar on a logarithmic axis.

    Parameters
    ----------
    effects : mapping of str to float
        Size of each effect, in `unit`; a zero is written "exact 0", NaN and infinity are hatched.
    unit : str
        What is measured, and its unit: the label of the axis.
    title, weights : str
        Title, and label of the weights.

    Raises
    ------
    InputError
        If there is no effect, or one is negative.
    """
    if not effects:
        raise InputError("There are no effects to draw; give one at least.")
    for name, value in effects.items():
        if value < 0:
            raise InputError(f"The effect of '{name}' is {value:g}; give magnitudes, of 0 or more.")
    positive = [v for v in effects.values() if v > 0 and math.isfinite(v)] or [1.0]
    left, right = 10.0 ** (math.floor(math.log10(min(positive))) - 1), max(positive) * 10
    with new_figure(1.1 + 0.3 * len(effects), title, weights) as figure:
        axes = figure.subplots()
        axes.set_xscale("log")
        axes.set_xlim(left, right)
        axes.grid(axis="x")
        for row, value in enumerate(effects.values()):
            if math.isfinite(value) and value > 0:
                axes.barh(row, value - left, left=left, height=0.62, color=REFERENCE)
                beside(axes, value, row, compact(value))
            elif value == 0:
                axes.plot(left, row, marker="D", markersize=6, color=REFERENCE, clip_on=False)
                beside(axes, left, row, "exact 0", gap=9)
            else:
                axes.barh(row, right - left, left=left, height=0.62, **NAN_MARK)
                beside(axes, left, row, compact(value))
        axes.set_yticks(range(len(effects)), list(effects))
        axes.set(ylim=(len(effects) - 0.5, -0.5), xlabel=unit)
        axes.tick_params(axis="y", length=0, pad=9)
    return figure


def heat_map(
    rows: Sequence[str],
    columns: Sequence[str],
    values: Sequence[Sequence[float | str]],
    title: str = "",
    weights: str = "",
    unit: str = "",
    log: bool = False,
) -> "Figure":
    """Draw a table of verdicts, figures or both: one row per backend, say, and one column per question.

    Parameters
    ----------
    rows, columns : sequence of str
        Names of the rows and columns.
    values : sequence of sequences of float or str, len(rows) by len(columns)
        A text that begins with a verdict (``pass``, ``fail``, ``unknown``, ``skip``) has the verdict's colour; a float
        has its place on one colour scale; NaN and infinity are hatched.
    title, weights : str
        Title, and label of the weights.
    unit : str
        What the floats are, and their unit.
    log : bool
        Whether the scale is logarithmic; a zero is then written "exact 0", without a colour.

    Raises
    ------
    InputError
        If the table is empty, its shape does not fit its names, or a figure on a logarithmic scale is negative.
    """
    if not rows or not columns or [len(line) for line in values] != [len(columns)] * len(rows):
        raise InputError(f"The table must have {len(rows)} rows of {len(columns)} values, and one at least.")
    numbers = [float(cell) for line in values for cell in line if not isinstance(cell, str)]
    if log and any(number < 0 for number in numbers):
        raise InputError("A figure below 0 has no place on a logarithmic scale; use log=False.")
    scale = _colour_scale([n for n in numbers if math.isfinite(n) and (n > 0 or not log)], log)
    wrap = max(8, 84 // len(columns))
    texts = [_signed(cell) for line in values for cell in line if isinstance(cell, str)]
    lines = max((fill(text, wrap).count("\n") + 1 for text in texts), default=1)
    with new_figure(1.1 + (0.2 + 0.16 * lines) * len(rows), title, weights) as figure:
        axes = figure.subplots()
        for row, line in enumerate(values):
            for column, cell in enumerate(line):
                _cell(axes, row, column, cell, scale, log, wrap)
        for edge in range(len(columns) + 1):
            axes.axvline(edge - 0.5, color="white", linewidth=2)
        for edge in range(len(rows) + 1):
            axes.axhline(edge - 0.5, color="white", linewidth=2)
        axes.set(xlim=(-0.5, len(columns) - 0.5), ylim=(len(rows) - 0.5, -0.5))
        axes.set_xticks(range(len(columns)), [fill(column, wrap) for column in columns])
        axes.set_yticks(range(len(rows)), list(rows))
        axes.xaxis.tick_top()
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        if scale is not None:
            figure.colorbar(scale, ax=axes, pad=0.02, aspect=12)
            axes.set_xlabel(f"colour: {unit}" if unit else "")
    return figure


def beside(axes: "Axes", x: float, y: float, text: str, gap: int = 5) -> None:
    """Write `text` to the right of a point, on white, so that no line runs through it."""
    axes.annotate(text, (x, y), xytext=(gap, 0), textcoords="offset points", va="center", bbox=ON_WHITE)


def _colour_scale(numbers: Sequence[float], log: bool) -> Any:
    """Return the scale of the floats, None where there is none."""
    if not numbers:
        return None
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LogNorm, Normalize

    low, high = min(numbers), max(numbers)
    if low == high:
        low, high = (low / 10, high * 10) if log else (low - 1, high + 1)
    return ScalarMappable((LogNorm if log else Normalize)(low, high), colours("cividis"))


def _cell(axes: "Axes", row: int, column: int, cell: float | str, scale: Any, log: bool, wrap: int) -> None:
    from matplotlib.patches import Rectangle

    look: dict[str, Any] = {"facecolor": "white", "linewidth": 0}
    ink, box = INK, dict[str, Any]()
    if isinstance(cell, str):
        look["facecolor"] = _VERDICTS.get(_verdict(cell), "white")
        text = _signed(cell)
    elif not math.isfinite(cell):
        look, text, box = NAN_MARK, compact(cell), ON_WHITE
    elif log and cell == 0:
        text = "exact 0"
    else:
        red, green, blue, _ = look["facecolor"] = scale.to_rgba(cell)
        # relative luminance (WCAG 2), without its gamma
        ink = INK if 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.5 else "white"
        text = compact(cell)
    axes.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, **look))
    axes.text(column, row, fill(text, wrap), ha="center", va="center", color=ink, bbox=box or None)


def _verdict(cell: str) -> str:
    return cell.partition(" ")[0].rstrip(":,;")


def _signed(cell: str) -> str:
    """Return the text with the sign of its verdict before it, so that colour is not the only sign."""
    sign = _SIGNS.get(_verdict(cell))
    return f"{sign} {cell}" if sign else cell


def f0_contours(
    signals: Mapping[str, Signal], sr: int, title: str = "Fundamental frequency", weights: str = ""
) -> "Figure":
    """Draw the F0 contours of several signals over each other, the reference first.

    Parameters
    ----------
    signals : mapping of str to numpy.ndarray, shape (n,), float
        Samples, full scale 1. One that is not finite has no contour, and the legend says so.
    sr : int
        Sample rate in Hz.
    title, weights : str
        Title, and label of the weights.

    Raises
    ------
    InputError
        If there is none, or one is no signal.
    """

    def curve(y: Signal) -> Curve:
        if finite_fraction(y) < 1:
            return (), (), f" ({percent_finite(y)}: no F0)"
        contour = f0_contour(y, sr)
        return contour.times, contour.f0, f" ({100 * np.mean(contour.voiced):.0f} % of frames voiced)"

    seconds = max(map(len, signals.values()), default=0) / sr
    return _curves(signals, curve, title, weights, xlabel="time (s)", ylabel="F0 (Hz)", xlim=(0, seconds))


def average_spectra(
    signals: Mapping[str, Signal], sr: int, title: str = "Average spectrum", weights: str = ""
) -> "Figure":
    """Draw the average power spectrum of several signals over each other.

    Parameters
    ----------
    signals : mapping of str to numpy.ndarray, shape (n,), float
        Samples. One that is silent or not finite has no line, and the legend says so.
    sr : int
        Sample rate in Hz.
    title, weights : str
        Title, and label of the weights.

    Raises
    ------
    InputError
        If there is none, or one is no signal.
    """

    def curve(y: Signal) -> Curve:
        frequencies, power = spectrum.average_spectrum(y, sr)
        if not np.all(power > 0):
            return (), (), f" ({'silent' if finite_fraction(y) == 1 else percent_finite(y)})"
        return frequencies / 1000, 10 * np.log10(power), ""

    axis = {"xlabel": "frequency (kHz)", "ylabel": "power (dB)", "xlim": (0, sr / 2000)}
    return _curves(signals, curve, title, weights, **axis)


def levels_at_joins(
    y: Signal, sr: int, found: Sequence[Join], title: str = "Level around joins", weights: str = ""
) -> "Figure":
    """Draw the short-time level of a signal for 300 ms around each join.

    Parameters
    ----------
    y : numpy.ndarray, shape (n,), float
        Samples, full scale 1, without NaN.
    sr : int
        Sample rate in Hz.
    found : sequence of Join
        See `joins.joins`.
    title, weights : str
        Title, and label of the weights.

    Raises
    ------
    InputError
        If there is no join.
    """
    if not found:
        raise InputError("There is no join to draw; give a text that is cut.")
    level, reach = short_time_level(y, sr), 150
    with new_figure(3.2, title, weights) as figure:
        axes = figure.subplots()
        for index, join in enumerate(found):
            at = np.arange(max(0, round(1000 * join.at) - reach), min(level.size, round(1000 * join.at) + reach))
            look = _look(index, 1.3)
            axes.plot(at - 1000 * join.at, np.maximum(level[at] - level.max(), -120), label=f"{join.at:.2f} s", **look)
        axes.axvline(0, linestyle="--", linewidth=1, color=FAINT)
        axes.grid(axis="y")
        axes.set(xlabel="time from the join (ms)", ylabel="level (dB re the loudest)", xlim=(-reach, reach))
        legend_above(axes, axes.get_lines()[:-1])
    return figure


def _curves(
    signals: Mapping[str, Signal], curve: Callable[[Signal], Curve], title: str, weights: str, **axis: Any
) -> "Figure":
    """Draw one curve per signal; of one without a point the legend alone tells."""
    if not signals:
        raise InputError("There are no signals to draw; give one at least.")
    with new_figure(3.2, title, weights) as figure:
        axes = figure.subplots()
        for index, (name, y) in enumerate(signals.items()):
            x, level, about = curve(as_signal(y, name))
            look = _look(index, 1.3 if index else 3)
            axes.plot(x, level, label=f"{name}{about}", linestyle="-" if len(x) else ":", alpha=0.9, **look)
        axes.grid(axis="y")
        axes.set(**axis)
        legend_above(axes, axes.get_lines())
    return figure


def _look(index: int, linewidth: float) -> dict[str, Any]:
    """Return colour and width of the curve at `index`; the first is the reference."""
    palette = (REFERENCE, *CANDIDATES)
    return {"color": palette[index % len(palette)], "linewidth": linewidth}
