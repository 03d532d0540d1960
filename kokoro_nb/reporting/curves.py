"""Figures with one curve per signal: pitch and level over time, power over frequency."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kokoro_nb.errors import InputError
from kokoro_nb.listening import spectrum
from kokoro_nb.listening.comparison import f0_contour
from kokoro_nb.listening.speech_checks import Join, short_time_level
from kokoro_nb.listening.waveform import Signal, as_signal, finite_fraction, percent_finite
from kokoro_nb.reporting.style import CANDIDATES, FAINT, REFERENCE, WIDTH, legend_above, new_figure, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
    samples = _checked(signals)
    with style():
        figure = new_figure(WIDTH, 3.2, title, weights)
        axes = figure.subplots()
        for index, (name, y) in enumerate(samples.items()):
            look = _look(index, 1.3 if index else 3)
            if finite_fraction(y) == 1:
                contour = f0_contour(y, sr)
                label = f"{name} ({100 * np.mean(contour.voiced):.0f} % of frames voiced)"
                axes.plot(contour.times, contour.f0, label=label, alpha=0.9, **look)
            else:
                axes.plot([], [], label=f"{name} ({percent_finite(y)}: no F0)", linestyle=":", **look)
        axes.grid(axis="y")
        axes.set(xlabel="time (s)", ylabel="F0 (Hz)", xlim=(0, max(map(len, samples.values())) / sr))
        legend_above(axes, axes.get_lines())
    return figure


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
    samples = _checked(signals)
    with style():
        figure = new_figure(WIDTH, 3.2, title, weights)
        axes = figure.subplots()
        for index, (name, y) in enumerate(samples.items()):
            frequencies, power = spectrum.average_spectrum(y, sr)
            look = _look(index, 1.3)
            if np.all(power > 0):
                axes.plot(frequencies / 1000, 10 * np.log10(power), label=name, **look)
            else:
                silent = "silent" if finite_fraction(y) == 1 else percent_finite(y)
                axes.plot([], [], label=f"{name} ({silent})", linestyle=":", **look)
        axes.grid(axis="y")
        axes.set(xlabel="frequency (kHz)", ylabel="power (dB)", xlim=(0, sr / 2000))
        legend_above(axes, axes.get_lines())
    return figure


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
    with style():
        figure = new_figure(WIDTH, 3.2, title, weights)
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


def _checked(signals: Mapping[str, Signal]) -> dict[str, Signal]:
    if not signals:
        raise InputError("There are no signals to draw; give one at least.")
    return {name: as_signal(y, name) for name, y in signals.items()}


def _look(index: int, linewidth: float) -> dict[str, Any]:
    """Return colour and width of the curve at `index`; the first is the reference."""
    palette = (REFERENCE, *CANDIDATES)
    return {"color": palette[index % len(palette)], "linewidth": linewidth}
