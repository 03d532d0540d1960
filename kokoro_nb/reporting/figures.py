"""Figures of sound, one function each; every one returns a matplotlib `Figure` that a notebook shows.

Signals are one-dimensional float arrays, full scale 1. What is NaN or infinite is hatched or left out, and the title or
the legend says how much is finite. `weights` is the label of the weights that a figure was made with.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kokoro_nb.errors import InputError
from kokoro_nb.listening import spectrum
from kokoro_nb.listening.comparison import f0_contour
from kokoro_nb.listening.joins import Join, short_time_level
from kokoro_nb.listening.waveform import Signal, as_pair, as_signal, finite_fraction, percent_finite
from kokoro_nb.reporting.style import CANDIDATES, FAINT, NAN_MARK, REFERENCE, colours, legend_above, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Curve = tuple[Any, Any, str]  # its points, and what the legend says of it
_N_FFT, _HOP = 1024, 128  # of spectrograms, in samples
_FLOOR_DB, _DIFFERENCE_DB = -80.0, 40.0  # floor re the largest power in the reference, end of the difference's scale


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
    scale = {"cmap": colours("magma"), "vmin": _FLOOR_DB, "vmax": top}
    gap = {"cmap": colours("RdBu_r"), "vmin": -_DIFFERENCE_DB, "vmax": _DIFFERENCE_DB}
    shown = ((names[0], pair[0], levels[0], scale), (names[1], pair[1], levels[1], scale))
    with new_figure(3.3, title, weights) as figure:
        panels = figure.subplots(1, 3, sharex=True, sharey=True)
        difference = ("difference", pair[1] - pair[0], levels[1] - levels[0], gap)
        for axes, (name, y, level, colour) in zip(panels, (*shown, difference), strict=True):
            axes.patch.set(**NAN_MARK)  # what is drawn over it hides it, and what is NaN does not
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
