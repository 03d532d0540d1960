"""Figures of sound and of numbers, one function each; every one returns a matplotlib `Figure` that a notebook shows.

Signals are one-dimensional float arrays, full scale 1. What is NaN or infinite is hatched and written out, or left out,
and the title or the legend says how much is finite. `weights` is the label of the weights that a figure was made with.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from kokoro_nb.errors import InputError
from kokoro_nb.listening import spectrum, waveform
from kokoro_nb.listening.comparison import f0_contour
from kokoro_nb.listening.waveform import Signal, as_pair, as_signal, finite_fraction, percent_finite
from kokoro_nb.reporting import style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Curve = tuple[Any, Any, str]  # its points, and what the legend says of it
_N_FFT, _HOP = 1024, 128  # of spectrograms, in samples
_FLOOR_DB, _DIFFERENCE_DB = -80.0, 40.0  # floor re the largest power in the reference, end of the difference's scale
_VERDICTS = {"pass": ("✓", "#CFE8F7"), "fail": ("✗", "#F7C6A8"), "unknown": ("?", "#E3E3E3"), "skip": ("–", "#F4F4F4")}


def spectrograms(
    reference: Signal, candidate: Signal, sr: int, names: tuple[str, str], title: str = "", weights: str = ""
) -> "Figure":
    """Draw the power of two signals by an STFT on one scale, and their difference in dB, side by side.

    Frame ``t`` is centred at sample ``128 * t``. What is NaN is hatched.

    Parameters
    ----------
    reference, candidate : numpy.ndarray, shape (n,), float
        Samples, full scale 1.
    sr : int
        Sample rate in Hz.
    names : (str, str)
        What the titles call them.
    title, weights : str
        Title, and label of the weights.

    Raises
    ------
    InputError
        If either is no signal, their lengths differ, or the reference is silent or nowhere finite.
    """
    pair = as_pair(reference, candidate)
    powers = [spectrum.power_spectrogram(y, _N_FFT, _HOP) for y in pair]
    maximum = float(powers[0][np.isfinite(powers[0])].max(initial=0.0))
    if not maximum > 0:
        raise InputError("The reference is silent or nowhere finite; there is nothing to refer the levels to.")
    levels = [spectrum.floored_db(power, maximum, _FLOOR_DB) for power in powers]
    # the scale reaches up to a candidate that is louder than the reference
    top = float(levels[1][np.isfinite(levels[1])].max(initial=0.0))
    hop, bin_khz = _HOP / sr, sr / _N_FFT / 1000
    extent = (-hop / 2, (levels[0].shape[1] - 0.5) * hop, -bin_khz / 2, sr / 2000 + bin_khz / 2)
    look: dict[str, Any] = {"origin": "lower", "aspect": "auto", "extent": extent}
    scale = {"cmap": style.colours("magma"), "vmin": _FLOOR_DB, "vmax": top}
    gap = {"cmap": style.colours("RdBu_r"), "vmin": -_DIFFERENCE_DB, "vmax": _DIFFERENCE_DB}
    shown = ((names[0], pair[0], levels[0], scale), (names[1], pair[1], levels[1], scale))
    with style.new_figure(3.3, title, weights) as figure:
        panels = figure.subplots(1, 3, sharex=True, sharey=True)
        difference = ("difference", pair[1] - pair[0], levels[1] - levels[0], gap)
        for axes, (name, y, level, colour) in zip(panels, (*shown, difference), strict=True):
            axes.patch.set(**style.NAN_MARK)  # what is drawn over it hides it, and what is NaN does not
            about = "" if finite_fraction(y) == 1 else f": {percent_finite(y)}"
            axes.set(title=f"{name}{about}", xlabel="time (s)", ylim=(0, sr / 2000))
            axes.imshow(level, **colour, **look)
        panels[0].set_ylabel("frequency (kHz)")
        for image, beside, label, ends in (
            (panels[1].get_images()[0], panels[:2], "power (dB re reference's maximum)", "min"),
            (panels[2].get_images()[0], panels[2], "candidate − reference (dB)", "both"),
        ):
            figure.colorbar(image, ax=beside, label=label, extend=ends, aspect=30, pad=0.03)
    return figure


def f0_contours(
    signals: Mapping[str, Signal], sr: int, title: str = "Fundamental frequency", weights: str = ""
) -> "Figure":
    """Draw the F0 contours of several signals over each other, the reference first.

    Parameters
    ----------
    signals : mapping of str to numpy.ndarray, shape (n,), float
        Samples, full scale 1. One that is not finite has no contour, which the legend says.
    sr : int
        Sample rate in Hz.
    title, weights : str
        Title, and label of the weights.

    Raises
    ------
    InputError
        If there is no signal.
    """

    def curve(y: Signal) -> Curve:
        if finite_fraction(y) < 1:
            return (), (), f" ({percent_finite(y)}: no F0)"
        times, f0 = f0_contour(y, sr)
        return times, f0, f" ({100 * np.mean(~np.isnan(f0)):.0f} % of frames voiced)"

    seconds = max(map(len, signals.values()), default=0) / sr
    return _curves(signals, curve, title, weights, xlabel="time (s)", ylabel="F0 (Hz)", xlim=(0, seconds))


def average_spectra(
    signals: Mapping[str, Signal], sr: int, title: str = "Average spectrum", weights: str = ""
) -> "Figure":
    """Draw the average power spectrum of several signals over each other; the parameters are those of `f0_contours`."""

    def curve(y: Signal) -> Curve:
        frequencies, power = spectrum.average_spectrum(y, sr)
        if not np.all(power > 0):
            return (), (), f" ({'silent' if finite_fraction(y) == 1 else percent_finite(y)})"
        return frequencies / 1000, 10 * np.log10(power), ""

    axis = {"xlabel": "frequency (kHz)", "ylabel": "power (dB)", "xlim": (0, sr / 2000)}
    return _curves(signals, curve, title, weights, **axis)


def levels_at_joins(
    y: Signal, sr: int, found: Sequence[waveform.Join], title: str = "Level around joins", weights: str = ""
) -> "Figure":
    """Draw the short-time level of a signal for 300 ms around each join.

    Parameters
    ----------
    y : numpy.ndarray, shape (n,), float
        The joined audio, full scale 1.
    sr : int
        Sample rate in Hz.
    found : sequence of Join
        Where it is joined.
    title, weights : str
        Title, and label of the weights.

    Raises
    ------
    InputError
        If there is no join.
    """
    if not found:
        raise InputError("There is no join to draw; give a text that is cut.")
    level, reach = waveform.short_time_level(y, sr), 150
    curves = {}
    for join in found:
        at = np.arange(max(0, round(1000 * join.at) - reach), min(level.size, round(1000 * join.at) + reach))
        curves[f"{join.at:.2f} s"] = (at - 1000 * join.at, np.maximum(level[at] - level.max(), -120), "")
    axis = {"xlabel": "time from the join (ms)", "ylabel": "level (dB re the loudest)", "xlim": (-reach, reach)}
    figure = _curves(curves, lambda known: known, title, weights, **axis)
    figure.axes[0].axvline(0, linestyle="--", linewidth=1, color=style.FAINT)
    return figure


def _curves(given: Mapping[str, Any], curve: Callable[[Any], Curve], title: str, weights: str, **axis: Any) -> "Figure":
    """Draw one curve for each that is given, the reference first; of one without a point the legend alone tells."""
    if not given:
        raise InputError("There are no signals to draw; give one at least.")
    palette = (style.REFERENCE, *style.CANDIDATES)
    with style.new_figure(3.2, title, weights) as figure:
        axes = figure.subplots()
        for index, (name, one) in enumerate(given.items()):
            drawn = isinstance(one, tuple)
            x, level, about = curve(one if drawn else as_signal(one, name))
            look: dict[str, Any] = {"color": palette[index % len(palette)], "linewidth": 1.3 if index or drawn else 3}
            axes.plot(x, level, label=f"{name}{about}", linestyle="-" if len(x) else ":", alpha=0.9, **look)
        axes.grid(axis="y")
        axes.set(**axis)
        style.legend_above(axes, axes.get_lines())
    return figure


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
    with style.new_figure(1.2 + 0.3 * len(values), title, weights) as figure:
        axes = figure.subplots()
        axes.set_xscale("log")
        axes.set_xlim(left, right)
        axes.grid(axis="x")
        for row, (name, value) in enumerate(values.items()):
            text, end = (notes or {}).get(name, style.compact(value)), left
            if value == 0:
                axes.plot(left, row, marker="D", markersize=6, color=style.REFERENCE, clip_on=False)
                text = "exact 0"
            elif math.isfinite(value):
                axes.barh(row, value - left, left=left, height=0.62, color=style.REFERENCE)
                low, end = spreads.get(name, (value, value))
                axes.plot([low, end], [row, row], color=style.INK, linewidth=1.5)
            else:
                axes.barh(row, right - left, left=left, height=0.62, **style.NAN_MARK)
            look: dict[str, Any] = {"xytext": (9, 0), "textcoords": "offset points", "va": "center"}
            axes.annotate(text, (end, row), bbox=style.ON_WHITE, **look)
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
    with style.new_figure(1.1 + (0.2 + 0.16 * lines) * len(rows), title, weights) as figure:
        axes = figure.subplots()
        for row, line in enumerate(cells):
            for column, (text, look, box) in enumerate(line):
                axes.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, **look))
                red, green, blue, _ = to_rgba(look["facecolor"])
                # relative luminance (WCAG 2), without its gamma
                ink = style.INK if 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.5 else "white"
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
    return ScalarMappable((LogNorm if log else Normalize)(low, high), style.colours("cividis"))


def _cell(cell: float | str, scale: Any, log: bool) -> tuple[str, dict[str, Any], dict[str, Any] | None]:
    """Return the text of a cell, its look, and the box behind the text; a verdict has a sign beside its colour."""
    plain: dict[str, Any] = {"facecolor": "white", "linewidth": 0}
    if isinstance(cell, str):
        sign, colour = _VERDICTS.get(cell.partition(" ")[0].rstrip(":,;"), ("", "white"))
        return f"{sign} {cell}".strip(), {**plain, "facecolor": colour}, None
    if not math.isfinite(cell):
        return style.compact(cell), style.NAN_MARK, style.ON_WHITE
    if log and cell == 0:
        return "exact 0", plain, None
    return style.compact(cell), {**plain, "facecolor": scale.to_rgba(cell)}, None
