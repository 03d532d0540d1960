"""Figures of sound, one function each; every one returns a matplotlib `Figure` that a notebook shows.

Signals are one-dimensional float arrays, full scale 1. What is NaN or infinite is hatched in a colour of its own, and
the title says how much is finite. `weights` is the label of the weights that a figure was made with.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from kokoro_nb.errors import InputError
from kokoro_nb.listening import spectrum
from kokoro_nb.listening.comparison import f0_contour
from kokoro_nb.listening.joins import Join, short_time_level
from kokoro_nb.listening.waveform import Signal, as_pair, as_signal, finite_fraction, percent_finite
from kokoro_nb.reporting.style import (
    CANDIDATES,
    DIFFERENCE,
    FAINT,
    NAN_MARK,
    REFERENCE,
    colours,
    compact,
    hatch_background,
    legend_above,
    new_figure,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Names = tuple[str, str]
NAMES: Names = ("reference", "candidate")
Curve = tuple[Any, Any, str]  # its points, and what the legend says of it
_MEL_TICKS = (0, 250, 500, 1000, 2000, 4000, 8000, 12000, 16000)
_COLUMNS = 300
_N_FFT, _HOP, _MELS = 1024, 128, 80  # of spectrograms, in samples, and mel bands
_FLOOR_DB, _DIFFERENCE_DB = -80.0, 40.0  # floor re the largest power in the reference, end of the difference's scale


def waveforms(
    reference: Signal, candidate: Signal, sr: int, names: Names = NAMES, title: str = "Waveforms", weights: str = ""
) -> "Figure":
    """Draw two signals over each other, and their difference below on its own scale.

    Parameters
    ----------
    reference, candidate : numpy.ndarray, shape (n,), float
        Samples, full scale 1. Where the candidate's peak is over ten times the reference's, the axis is logarithmic
        beyond the reference's peak, so that both can be seen.
    sr : int
        Sample rate in Hz.
    names : (str, str)
        What the legend calls them.
    title, weights : str
        Title, and label of the weights.

    Raises
    ------
    InputError
        If either is no signal, or their lengths differ.
    """
    first, second = as_pair(reference, candidate)
    with np.errstate(invalid="ignore"):
        difference = second - first
    seconds = np.arange(len(first)) / sr
    with new_figure(4.2, title, weights) as figure:
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
        for y, name, colour in zip((first, second), names, (REFERENCE, CANDIDATES[0]), strict=True):
            above.plot(seconds, _finite_only(y), color=colour, label=_label(name, y), linewidth=0.7, alpha=0.85)
        legend_above(above, above.get_lines())
        above.set_ylabel("amplitude\n(full scale = 1)")
        below.plot(seconds, _finite_only(difference), color=DIFFERENCE, linewidth=0.7)
        below.set(ylabel="difference", xlabel="time (s)", xlim=(0, len(first) / sr))
        below.set_title(f"{names[1]} − {names[0]}: {_extent(difference, first)}")
        for axes in (above, below):
            axes.axhline(0, color="#BBBBBB", linewidth=0.6, zorder=0)
            axes.yaxis.set_major_formatter(lambda value, _: compact(value, 4))
            _hatch_time(axes, difference, sr)
        small, large = _peak(first), _peak(second)
        if 0 < 10 * small < large:
            linear_to = 10.0 ** math.ceil(math.log10(small))
            above.set_yscale("symlog", linthresh=linear_to)
            above.get_lines()[0].set_zorder(3)  # the reference is the smaller one, and would lie hidden
            above.set_ylabel(f"amplitude (full scale = 1,\nlogarithmic beyond {compact(linear_to)})")
    return figure


def spectrograms(
    kind: Literal["stft", "mel"],
    reference: Signal,
    candidate: Signal,
    sr: int,
    names: Names = NAMES,
    title: str = "",
    weights: str = "",
) -> "Figure":
    """Draw the power of two signals on one scale, and their difference in dB, side by side.

    Parameters
    ----------
    kind : str
        ``stft``, or ``mel`` for bands up to ``sr / 2``.
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
    import librosa

    pair = as_pair(reference, candidate)
    if kind == "stft":
        powers = [spectrum.power_spectrogram(y, _N_FFT, _HOP) for y in pair]
        bottom, top = -sr / _N_FFT / 2, sr / 2 + sr / _N_FFT / 2
    else:
        powers = [spectrum.mel_spectrogram(y, sr, _N_FFT, _HOP, _MELS) for y in pair]
        # the centre of band i is at step i + 1 of the _MELS + 1 steps on the mel scale
        step = float(librosa.hz_to_mel(sr / 2)) / (_MELS + 1)
        bottom, top = step / 2, (_MELS + 0.5) * step
    with new_figure(3.3, title, weights) as figure:
        left = _side_by_side(figure, pair, powers, names, _HOP / sr, (bottom, top))
        if kind == "stft":
            left.set(ylabel="frequency (kHz)", ylim=(0, sr / 2))
            left.yaxis.set_major_formatter(lambda hertz, _: f"{hertz / 1000:g}")
        else:
            ticks = [hertz for hertz in _MEL_TICKS if bottom <= librosa.hz_to_mel(hertz) <= top]
            left.set_yticks([librosa.hz_to_mel(hertz) for hertz in ticks], [f"{hertz / 1000:g}" for hertz in ticks])
            left.set_ylabel("frequency (kHz, mel scale)")
    return figure


def _side_by_side(
    figure: "Figure",
    pair: tuple[Signal, Signal],
    powers: Sequence[NDArray[np.float64]],
    names: Names,
    hop: float,
    vertical: tuple[float, float],
) -> "Axes":
    """Draw reference, candidate and difference, frame ``t`` centred at ``t * hop`` seconds; return the left axes."""
    maximum = float(powers[0][np.isfinite(powers[0])].max(initial=0.0))
    if not maximum > 0:
        raise InputError("The reference is silent or nowhere finite; there is nothing to refer the levels to.")
    levels = [spectrum.floored_db(power, maximum, _FLOOR_DB) for power in powers]
    # the scale reaches up to a candidate that is louder than the reference
    top = float(levels[1][np.isfinite(levels[1])].max(initial=0.0))
    extent = (-hop / 2, (levels[0].shape[1] - 0.5) * hop, *vertical)
    look: dict[str, Any] = {"origin": "lower", "aspect": "auto", "extent": extent}
    scales = {"cmap": colours("magma"), "vmin": _FLOOR_DB, "vmax": top}
    gaps = {"cmap": colours("RdBu_r"), "vmin": -_DIFFERENCE_DB, "vmax": _DIFFERENCE_DB}
    panels = figure.subplots(1, 3, sharex=True, sharey=True)
    shown = (
        (*names, "difference"),
        (*pair, pair[1] - pair[0]),
        (*levels, levels[1] - levels[0]),
        (scales, scales, gaps),
    )
    for axes, name, y, level, scale in zip(panels, *shown, strict=True):
        hatch_background(axes)
        axes.set(title=_label(name, y), xlabel="time (s)")
        axes.imshow(level, **scale, **look)
    bars: tuple[tuple[Any, Any, str, str], ...] = (
        (panels[1], panels[:2], "power (dB re reference's maximum)", "min"),
        (panels[2], panels[2], "candidate − reference (dB)", "both"),
    )
    for axes, beside, label, ends in bars:
        figure.colorbar(axes.get_images()[0], ax=beside, label=label, extend=ends, aspect=30, pad=0.03)
    left: Axes = panels[0]
    left.set_xlim(0, (levels[0].shape[1] - 1) * hop)
    return left


def band_energy_bars(
    ratios: Mapping[str, NDArray[np.floating]], title: str = "Band energy against the reference", weights: str = ""
) -> "Figure":
    """Draw the band-energy ratios of one or more candidates as bars.

    Parameters
    ----------
    ratios : mapping of str to numpy.ndarray, shape (bands,), float
        For each candidate the ratio in dB re the reference, from `spectrum.band_energy_ratio_db`. What is NaN or
        infinite is written where its bar would be.
    title, weights : str
        Title, and label of the weights.

    Raises
    ------
    InputError
        If there is none, or one has not a value for each band.
    """
    bands = spectrum.BANDS
    if not ratios:
        raise InputError("There are no band energies to draw; give those of one candidate at least.")
    for name, values in ratios.items():
        if np.shape(values) != (len(bands),):
            raise InputError(f"'{name}' has the shape {np.shape(values)} for {len(bands)} bands; give one per band.")
    width, crowded = 0.8 / len(ratios), len(ratios) > 2
    with new_figure(3.2, title, weights) as figure:
        axes = figure.subplots()
        handles: list[Any] = []
        for index, (name, values) in enumerate(ratios.items()):
            where = np.arange(len(bands)) + (index - (len(ratios) - 1) / 2) * width
            finite = np.isfinite(values)
            colour = CANDIDATES[index % len(CANDIDATES)]
            bars = axes.bar(where[finite], values[finite], width * 0.92, color=colour, label=name)
            handles.append(bars)
            if not crowded:
                axes.bar_label(bars, fmt=lambda value: f"{value:.1f}".replace("-", "−"), padding=3)
            look: dict[str, Any] = {"rotation": 90 if crowded else 0, "ha": "center", "va": "bottom"}
            for x, value in zip(where[~finite], values[~finite], strict=True):
                box = {**NAN_MARK, "boxstyle": "square,pad=0.3", "hatch": ""}
                axes.text(float(x), 0.0, compact(float(value)), bbox=box, **look)
        axes.axhline(0, color=FAINT, linewidth=0.8)
        axes.grid(axis="y")
        axes.margins(y=0.2)
        axes.set_xticks(range(len(bands)), [f"{low / 1000:g}–{high / 1000:g}" for low, high in bands])
        axes.set(xlabel="band (kHz)", ylabel="energy ratio (dB re reference)", xlim=(-0.6, len(bands) - 0.4))
        legend_above(axes, handles)
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
        contour = f0_contour(y, sr)
        return contour.times, contour.f0, f" ({100 * np.mean(contour.voiced):.0f} % of frames voiced)"

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
    y: Signal, sr: int, found: Sequence[Join], title: str = "Level around joins", weights: str = ""
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
    level, reach = short_time_level(y, sr), 150
    curves = {}
    for join in found:
        at = np.arange(max(0, round(1000 * join.at) - reach), min(level.size, round(1000 * join.at) + reach))
        curves[f"{join.at:.2f} s"] = (at - 1000 * join.at, np.maximum(level[at] - level.max(), -120), "")
    axis = {"xlabel": "time from the join (ms)", "ylabel": "level (dB re the loudest)", "xlim": (-reach, reach)}
    figure = _curves(curves, lambda known: known, title, weights, **axis)
    figure.axes[0].axvline(0, linestyle="--", linewidth=1, color=FAINT)
    return figure


def _curves(given: Mapping[str, Any], curve: Callable[[Any], Curve], title: str, weights: str, **axis: Any) -> "Figure":
    """Draw one curve for each that is given, the reference first; of one without a point the legend alone tells."""
    if not given:
        raise InputError("There are no signals to draw; give one at least.")
    palette = (REFERENCE, *CANDIDATES)
    with new_figure(3.2, title, weights) as figure:
        axes = figure.subplots()
        for index, (name, one) in enumerate(given.items()):
            drawn = isinstance(one, tuple)
            x, level, about = curve(one if drawn else as_signal(one, name))
            look: dict[str, Any] = {"color": palette[index % len(palette)], "linewidth": 1.3 if index or drawn else 3}
            axes.plot(x, level, label=f"{name}{about}", linestyle="-" if len(x) else ":", alpha=0.9, **look)
        axes.grid(axis="y")
        axes.set(**axis)
        legend_above(axes, axes.get_lines())
    return figure


def _label(name: str, y: Signal) -> str:
    """Return `name`, followed by the finite fraction where something is not finite."""
    return name if finite_fraction(y) == 1 else f"{name}: {percent_finite(y)}"


def _finite_only(y: Signal) -> Signal:
    """Return `y` with NaN where it is infinite, too: a line has a gap there, and the hatching says why."""
    return np.where(np.isfinite(y), y, np.nan)


def _peak(y: Signal) -> float:
    """Return the largest finite magnitude, 0 if there is none."""
    return float(np.abs(y[np.isfinite(y)]).max(initial=0.0))


def _extent(difference: Signal, reference: Signal) -> str:
    """Return how large `difference` is, in words."""
    if finite_fraction(difference) < 1:
        return percent_finite(difference)
    top = _peak(difference)
    if top == 0:
        return "exactly 0"
    share = f" ({compact(top / _peak(reference))} of the reference's peak)" if _peak(reference) > 0 else ""
    return f"at most {compact(top)}{share}"


def _hatch_time(axes: "Axes", y: Signal, sr: int) -> None:
    """Hatch the times at which `y` is not finite; one sample is widened to 1/300 of the axis, to be seen."""
    edges = np.linspace(0, len(y), min(_COLUMNS, len(y)) + 1).astype(int)
    broken = np.add.reduceat(~np.isfinite(y), edges[:-1]) > 0
    if broken.any():
        where: dict[str, Any] = {
            "x": edges / sr,
            "where": np.append(broken, False) | np.append(False, broken),
            "transform": axes.get_xaxis_transform(),
        }
        axes.fill_between(y1=0, y2=1, zorder=0.5, **where, **NAN_MARK)
        # a strip before the lines, which else would hide a short fault
        axes.fill_between(y1=0, y2=0.04, zorder=5, color=NAN_MARK["edgecolor"], linewidth=0, **where)
