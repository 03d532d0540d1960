"""Figures of sound, one function each; every one returns a matplotlib `Figure` that a notebook shows.

Signals are one-dimensional float arrays, full scale 1. What is NaN or infinite is hatched in a colour of its own, and
the title says how much is finite. `weights` is the label of the weights that a figure was made with.
"""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kokoro_nb.errors import InputError
from kokoro_nb.listening import spectrum
from kokoro_nb.listening.waveform import Signal, as_pair, finite_fraction, percent_finite
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
        _logarithmic_beyond(above, _peak(first), _peak(second))
    return figure


def stft_spectrograms(
    reference: Signal, candidate: Signal, sr: int, names: Names = NAMES, title: str = "", weights: str = ""
) -> "Figure":
    """Draw the STFT power of two signals on one scale, and their difference in dB, side by side.

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
    half_bin = sr / _N_FFT / 2
    with new_figure(3.3, title, weights) as figure:
        left = _side_by_side(figure, pair, powers, names, _HOP / sr, (-half_bin, sr / 2 + half_bin))
        left.set(ylabel="frequency (kHz)", ylim=(0, sr / 2))
        left.yaxis.set_major_formatter(lambda hertz, _: f"{hertz / 1000:g}")
    return figure


def mel_spectrograms(
    reference: Signal, candidate: Signal, sr: int, names: Names = NAMES, title: str = "", weights: str = ""
) -> "Figure":
    """Draw the mel power of two signals on one scale, and their difference in dB, side by side.

    The parameters and errors are those of `stft_spectrograms`; the mel bands reach up to ``sr / 2``.
    """
    import librosa

    pair = as_pair(reference, candidate)
    powers = [spectrum.mel_spectrogram(y, sr, _N_FFT, _HOP, _MELS) for y in pair]
    # the centre of band i is at step i + 1 of the _MELS + 1 steps on the mel scale
    step = float(librosa.hz_to_mel(sr / 2)) / (_MELS + 1)
    bottom, top = step / 2, (_MELS + 0.5) * step
    ticks = [hertz for hertz in _MEL_TICKS if bottom <= librosa.hz_to_mel(hertz) <= top]
    with new_figure(3.3, title, weights) as figure:
        left = _side_by_side(figure, pair, powers, names, _HOP / sr, (bottom, top))
        left.set_yticks([librosa.hz_to_mel(hertz) for hertz in ticks], [f"{hertz / 1000:g}" for hertz in ticks])
        left.set_ylabel("frequency (kHz, mel scale)")
    return figure


def band_energy_bars(
    ratios: Mapping[str, NDArray[np.floating]],
    title: str = "Band energy against the reference",
    weights: str = "",
) -> "Figure":
    """Draw the band-energy ratios of one or more candidates as bars.

    Parameters
    ----------
    ratios : mapping of str to numpy.ndarray, shape (len(spectrum.BANDS),), float
        For each candidate the ratio in dB re the reference, from `spectrum.band_energy_ratio_db`. What is NaN or
        infinite has no bar, and is written out.
    title, weights : str
        Title, and label of the weights.

    Raises
    ------
    InputError
        If there is no candidate, or one has another number of bands.
    """
    from matplotlib.patches import Patch

    bands = spectrum.BANDS
    if not ratios:
        raise InputError("There are no band energies to draw; give those of one candidate at least.")
    for name, values in ratios.items():
        if np.shape(values) != (len(bands),):
            raise InputError(f"'{name}' has the shape {np.shape(values)} for {len(bands)} bands; give one per band.")
    width = 0.8 / len(ratios)
    with new_figure(3.2, title, weights) as figure:
        axes = figure.subplots()
        handles = []
        for index, (name, values) in enumerate(ratios.items()):
            where = np.arange(len(bands)) + (index - (len(ratios) - 1) / 2) * width
            finite = np.isfinite(values)
            colour = CANDIDATES[index % len(CANDIDATES)]
            handles.append(Patch(color=colour, label=name))
            axes.bar(where[finite], values[finite], width * 0.92, color=colour)
            for x, value in zip(where, values, strict=True):
                _write_bar(axes, float(x), float(value), crowded=len(ratios) > 2)
        axes.axhline(0, color=FAINT, linewidth=0.8)
        axes.grid(axis="y")
        low, high = min(axes.dataLim.ymin, 0), max(axes.dataLim.ymax, 0)
        room = max(0.2 * (high - low), 0.5)
        axes.set_ylim(low - room, high + room)
        axes.set_xticks(range(len(bands)), [f"{low / 1000:g}–{high / 1000:g}" for low, high in bands])
        axes.set(xlabel="band (kHz)", ylabel="energy ratio (dB re reference)", xlim=(-0.6, len(bands) - 0.4))
        legend_above(axes, handles)
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
    known = powers[0][np.isfinite(powers[0])]
    maximum = float(known.max()) if known.size else math.nan
    if not maximum > 0:
        raise InputError("The reference is silent or nowhere finite; there is nothing to refer the levels to.")
    levels = [spectrum.floored_db(power, maximum, _FLOOR_DB) for power in powers]
    difference = levels[1] - levels[0]
    # the scale reaches up to a candidate that is louder than the reference
    top = max([0.0, *levels[1][np.isfinite(levels[1])].tolist()])
    look: dict[str, Any] = {
        "origin": "lower",
        "aspect": "auto",
        "extent": (-hop / 2, (levels[0].shape[1] - 0.5) * hop, *vertical),
    }
    panels = figure.subplots(1, 3, sharex=True, sharey=True)
    titles = (*(_label(name, y) for name, y in zip(names, pair, strict=True)), _label("difference", pair[1] - pair[0]))
    for axes, text in zip(panels, titles, strict=True):
        hatch_background(axes)
        axes.set_title(text)
        axes.set_xlabel("time (s)")
    for axes, level in zip(panels[:2], levels, strict=True):
        image = axes.imshow(level, cmap=colours("magma"), vmin=_FLOOR_DB, vmax=top, **look)
    figure.colorbar(image, ax=panels[:2], label="power (dB re reference's maximum)", extend="min", aspect=30, pad=0.02)
    image = panels[2].imshow(difference, cmap=colours("RdBu_r"), vmin=-_DIFFERENCE_DB, vmax=_DIFFERENCE_DB, **look)
    figure.colorbar(image, ax=panels[2], label="candidate − reference (dB)", extend="both", aspect=30, pad=0.04)
    left: Axes = panels[0]
    left.set_xlim(0, (levels[0].shape[1] - 1) * hop)
    return left


def _label(name: str, y: Signal) -> str:
    """Return `name`, followed by the finite fraction where something is not finite."""
    return name if finite_fraction(y) == 1 else f"{name}: {percent_finite(y)}"


def _finite_only(y: Signal) -> Signal:
    """Return `y` with NaN where it is infinite, too: a line has a gap there, and the hatching says why."""
    return np.where(np.isfinite(y), y, np.nan)


def _peak(y: Signal) -> float:
    """Return the largest finite magnitude, 0 if there is none."""
    return float(np.abs(y[np.isfinite(y)]).max(initial=0.0))


def _logarithmic_beyond(axes: "Axes", small: float, large: float) -> None:
    """Make the axis logarithmic beyond the power of ten over `small`, if `large` would hide it."""
    if not 0 < 10 * small < large:
        return
    linear_to, top = math.ceil(math.log10(small)), math.ceil(math.log10(large))
    axes.set_yscale("symlog", linthresh=10.0**linear_to)
    ticks = {0.0: "0"}
    for exponent in range(top, linear_to - 1, -max(1, math.ceil((top - linear_to) / 3))):
        ticks |= {10.0**exponent: f"$10^{{{exponent}}}$", -(10.0**exponent): f"$-10^{{{exponent}}}$"}
    axes.yaxis.set_ticks(list(ticks), list(ticks.values()))
    axes.yaxis.set_ticks([], minor=True)
    # the reference is the smaller one, and would lie hidden
    axes.get_lines()[0].set_zorder(3)
    axes.set_ylabel(f"amplitude (full scale = 1,\nlogarithmic beyond {compact(10.0**linear_to)})")


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


def _write_bar(axes: "Axes", x: float, value: float, crowded: bool) -> None:
    """Write the value at the end of its bar: always where there is no bar, else where there is room."""
    if crowded and math.isfinite(value):
        return
    text = f"{value:.1f}".replace("-", "−") if math.isfinite(value) else compact(value)
    below = math.isfinite(value) and value < 0
    axes.annotate(
        text,
        (x, value if math.isfinite(value) else 0),
        xytext=(0, -3 if below else 3),
        textcoords="offset points",
        ha="center",
        va="top" if below else "bottom",
        rotation=90 if crowded else 0,
        bbox=None if math.isfinite(value) else {**NAN_MARK, "boxstyle": "square,pad=0.3", "hatch": ""},
    )
