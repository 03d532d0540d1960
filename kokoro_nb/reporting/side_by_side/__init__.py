"""Versions of one utterance side by side: players at one gain, spectrograms on one scale, what differs beneath.

What a notebook shows is complete without a script: the players stand one below the other. The script makes one player
of them that switches between the versions where it stands, and draws their waveforms.
"""

import base64
import io
import math
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kokoro_nb.errors import InputError
from kokoro_nb.listening import spectrum
from kokoro_nb.listening.waveform import as_signal, finite_fraction, percent, rms_ratio_db
from kokoro_nb.markup import Fragment, number, resource
from kokoro_nb.reporting.fragments import rendered
from kokoro_nb.reporting.style import NAN_MARK, encode_png

MARK = "knb-versions"
HOP = 128  # samples between frames of short audio
COLUMNS = 1000  # frames at most: a page is not wider
BLOCKS = 6000  # of an envelope at most: 12 kB before base64
STEP = 2.0**-15  # of 16 bits
PARTS = ("basics", "view", "sound", "drawing", "lanes", "version", "bar", "ruler", "input", "player", "start")
MELS = 80
N_FFT = 1024
FLOOR_DB = -80.0
SHADES = 64  # of the colour map: 1.3 dB each over 80 dB, a third fewer bytes than 256
BROKEN = -128
NOT_FINITE = '<span class="knb-chip knb-fail">not finite</span> '
Floats = NDArray[np.float64]


@dataclass(frozen=True, repr=False)
class SideBySide(Fragment):
    """A figure of versions; in JupyterLab its script comes with it, in a report the page has it."""

    def _repr_html_(self) -> str:
        return f"{super()._repr_html_()}<script>{player_script()}</script>"


def player_script() -> str:
    """Return the parts of the script as one; nothing that they declare is seen outside, or twice on a page."""
    parts = "\n".join(resource(f"reporting/side_by_side/{part}.js") for part in PARTS)
    return f'(() => {{\n"use strict";\n\n{parts}}})();\n'


def side_by_side(
    versions: Mapping[str, Any], sr: int, reference: str | None = None, title: str = "Versions side by side"
) -> SideBySide:
    """Return a figure in which several versions of one utterance are heard and seen on the same scales.

    All are embedded as 16-bit FLAC at one gain, so that what is louder sounds louder: 1, or less where one is beyond
    full scale. One that is not wholly finite cannot be played; it is drawn, hatched where it is not finite.

    Parameters
    ----------
    versions : mapping of str to array or torch.Tensor, shape (samples,), float
        The versions by name, full scale 1, all of one length.
    sr : int
        Sample rate in Hz.
    reference : str, optional
        The version that levels and differences refer to; the first by default.
    title : str
        What stands above.

    Raises
    ------
    InputError
        If there is no version, one is no audio, their lengths differ, or the reference is none of them.
    """
    samples = _checked(versions, sr)
    reference = next(iter(samples)) if reference is None else reference
    if reference not in samples:
        raise InputError(f"The reference '{reference}' is no version; give one of {', '.join(samples)}.")
    size = samples[reference].size
    hop = max(HOP, math.ceil(size / COLUMNS))
    drawn = spectrograms(samples, reference, sr, hop)
    gain, loudness = _gain(samples)
    shown = [_version(name, y, samples[reference], reference, sr, gain) for name, y in samples.items()]
    about = f"{number(size / sr)} s · {number(size)} samples at {number(sr)} Hz"
    given: dict[str, Any] = {"mark": MARK, "not_finite": NOT_FINITE, "floor": FLOOR_DB, "mels": MELS, "title": title}
    given |= {"sr": sr, "size": size, "hop": hop, "gain": gain, "about": about, "loudness": loudness}
    html = rendered("versions.html.j2", versions=shown, drawn=drawn, **given)
    text = "\n".join([f"{title}: {about}", *(one["text"] for one in shown), loudness])
    return SideBySide(html, text, resource("reporting/side_by_side/side_by_side.css"))


def _checked(versions: Mapping[str, Any], sr: int) -> dict[str, Floats]:
    if not versions:
        raise InputError("There are no versions to set side by side; give one at least.")
    samples = {name: mono(y, sr) for name, y in versions.items()}
    sizes = {name: y.size for name, y in samples.items()}
    if len(set(sizes.values())) > 1:
        each = ", ".join(f"'{name}' has {number(size)}" for name, size in sizes.items())
        raise InputError(f"Versions side by side must have one length, but {each} samples; cut them to what is valid.")
    return samples


def _gain(samples: Mapping[str, Floats]) -> tuple[float, str]:
    """Return the gain at which the loudest playable version is within full scale, and a sentence on it."""
    peaks = {name: float(np.abs(y).max()) for name, y in samples.items() if np.isfinite(y).all()}
    loudest = max(peaks, key=lambda name: peaks[name], default="")
    if peaks.get(loudest, 0.0) <= 1:
        return 1.0, "At one gain: nothing is turned up or down."
    down = f"{20 * math.log10(peaks[loudest]):.1f} dB down, for '{loudest}' is beyond full scale"
    return 1 / peaks[loudest], f"At one gain, {down}. The WAV files are untouched."


def _version(name: str, y: Floats, against: Floats, reference: str, sr: int, gain: float) -> dict[str, Any]:
    """Return what is shown of one version, its curves with whether the sound does not hold them, and a line of text."""
    finite = finite_fraction(y) == 1
    notes = ["reference"] if name == reference else []
    wave = envelope(y, BLOCKS)
    notes += _measured(y, against, gain, name == reference) if finite else [_broken(y, sr), wave.extent]
    curves, text = [("waveform", "Waveform", wave, not finite)], f"{name}: {' · '.join(notes)}"
    if name != reference:
        with np.errstate(invalid="ignore"):  # infinity less infinity is NaN, and hatched
            difference = envelope(y - against, BLOCKS)
        curves.append(("difference", f"Difference to {reference}", difference, True))
        text += f" · difference {difference.extent}"
    sound = sound_element(name, y * gain, sr) if finite else ""
    return {"name": name, "notes": notes, "sound": sound, "curves": curves, "text": text}


def _measured(y: Floats, against: Floats, gain: float, is_reference: bool) -> list[str]:
    peak = float(np.abs(y).max())
    notes = [level(peak)]
    ratio = rms_ratio_db(against, y)
    if not is_reference and math.isfinite(ratio):
        near = "equally loud" if not ratio else "within 0.01 dB in level"
        notes.append(near if abs(ratio) < 0.01 else f"{ratio:+.2f} dB in level")
    if 0 < peak * gain < STEP:
        notes.append("below one step of 16 bits at this gain: plays as silence")
    return notes


def _broken(y: Floats, sr: int) -> str:
    first = int(np.argmin(np.isfinite(y)))
    share = percent(1 - finite_fraction(y))
    return f"not playable: {share} of the samples are not finite, the first at {first / sr:.4f} s, sample {first:,}"


def spectrograms(samples: Mapping[str, Floats], reference: str, sr: int, hop: int) -> dict[str, Any]:
    """Draw the log-mel spectrogram of every version in the same colours.

    0 dB is the largest power in the reference. Where it is silent or nowhere finite, it is the largest of all versions,
    and where all are, a power of 1; the scale reaches up to a version that is louder. Frames that touch a sample which
    is not finite are hatched.

    Parameters
    ----------
    samples : mapping of str to numpy.ndarray, shape (n,), float64
        The versions; full scale 1.
    reference : str
        Name of the one that the levels refer to.
    sr : int
        Sample rate in Hz.
    hop : int
        Samples from one frame to the next; frame ``t`` is centred at sample ``t * hop``.

    Returns
    -------
    dict
        ``images``: name of a version -> PNG in base64, one pixel per mel band and frame; ``columns``: how many frames
        each has; ``top_db``: upper end of the scale in dB re what ``about`` names, the lower end is `FLOOR_DB`;
        ``legend``: PNG in base64 of the colours from the lower end to the upper.
    """
    powers = {name: spectrum.mel_spectrogram(y, sr, N_FFT, hop, MELS) for name, y in samples.items()}
    maximum, about = _loudest(powers[reference]), f"the loudest of {reference}"
    if not maximum > 0:
        maximum, about = max(map(_loudest, powers.values())), "the loudest of all"
    if not maximum > 0:
        maximum, about = 1.0, "a power of 1"
    levels = {name: spectrum.floored_db(power, maximum, FLOOR_DB) for name, power in powers.items()}
    top = max(0.0, *(float(level[np.isfinite(level)].max(initial=0.0)) for level in levels.values()))
    images = {name: _png(_shades(level, top)) for name, level in levels.items()}
    legend = _png(np.arange(SHADES)[None])
    return {"images": images, "columns": powers[reference].shape[1], "top_db": top, "about": about, "legend": legend}


def _loudest(power: Floats) -> float:
    return float(power[np.isfinite(power)].max(initial=0.0))


def _shades(level: Floats, top: float) -> NDArray[np.int_]:
    """Return the colour of each pixel, the highest band first; what is not finite in two colours, as stripes."""
    scaled = (level - FLOOR_DB) / (top - FLOOR_DB) * (SHADES - 1)
    row, column = np.indices(level.shape)
    stripes = SHADES + ((row + 2 * column) % 8 < 3)
    return np.where(np.isfinite(scaled), np.rint(scaled), stripes)[::-1].astype(int)


def _png(shades: NDArray[np.int_]) -> str:
    import matplotlib
    from matplotlib.colors import to_rgb

    colours = matplotlib.colormaps["magma"](np.linspace(0, 1, SHADES))[:, :3]
    marks = [to_rgb(NAN_MARK["facecolor"]), to_rgb(NAN_MARK["edgecolor"])]
    palette = np.rint(255 * np.vstack([colours, marks])).astype(np.uint8)
    return encode_png(shades.astype(np.uint8), palette)


@dataclass(frozen=True)
class Envelope:
    """The smallest and the largest value of every block of a signal, in steps of 1/127 of its peak.

    Attributes
    ----------
    values : numpy.ndarray, shape (2 * blocks,), int8
        Smallest and largest of the first block, of the second...; `BROKEN` for a block in which anything is not finite.
    block : int
        Samples in a block; the last may be shorter.
    peak : float
        The largest finite magnitude, full scale 1: what 127 stands for.
    finite : float
        Fraction of the samples that are finite.
    """

    values: NDArray[np.int8]
    block: int
    peak: float
    finite: float

    @property
    def text(self) -> str:
        """The values as base64."""
        return base64.b64encode(self.values.tobytes()).decode()

    @property
    def silent(self) -> bool:
        """Whether all of the signal is 0."""
        return not self.peak and self.finite == 1

    @property
    def extent(self) -> str:
        """How large the signal is, in words."""
        if not self.finite:
            return "nowhere finite"
        size = f"at most {number(self.peak)}" if self.peak else "exactly 0"
        return size if self.finite == 1 else f"{size} where it is finite"


def envelope(y: Floats, blocks: int) -> Envelope:
    """Return the envelope of `y`, shape (n,), float64, in at most so many blocks of equal length."""
    block = math.ceil(y.size / blocks)
    starts = np.arange(0, y.size, block)
    peak = float(np.abs(y[np.isfinite(y)]).max(initial=0.0))
    edges = np.stack([np.minimum.reduceat(y, starts), np.maximum.reduceat(y, starts)], axis=1)
    whole = np.isfinite(edges).all(axis=1, keepdims=True)  # both carry a NaN or an infinity on
    scaled = np.divide(127 * edges, peak or 1.0, where=whole, out=np.full_like(edges, BROKEN))
    return Envelope(np.rint(scaled).astype(np.int8).reshape(-1), block, peak, finite_fraction(y))


def mono(y: Any, sr: int) -> Floats:
    """Return `y` as float64 samples after checking that it is one channel of real floating-point audio.

    Parameters
    ----------
    y : array or torch.Tensor, shape=(samples,)
        Audio; axes of length 1 are dropped. NaN and infinity are kept.
    sr : int
        Sampling rate in Hz.

    Raises
    ------
    InputError
        If it has several channels, no samples or another dtype, or `sr` is no positive whole number.
    """
    if isinstance(sr, bool) or int(sr) != sr or sr <= 0:
        raise InputError(f"The sampling rate must be a positive whole number of Hz, not {sr!r}.")
    return as_signal(np.atleast_1d(np.squeeze(np.asarray(y.detach().cpu() if hasattr(y, "detach") else y))))


def level(peak: float) -> str:
    """Return a peak in words, full scale being 1.

    >>> level(0.5), level(0.0)
    ('peak 0.5 (-6.0 dBFS)', 'peak 0 (digital silence)')
    """
    return f"peak {number(peak)}" + (f" ({20 * np.log10(peak):.1f} dBFS)" if peak > 0 else " (digital silence)")


def sound_element(label: str, y: np.ndarray, sr: int) -> str:
    """Return an audio element with `y`, shape (samples,), finite and within full scale, as 16-bit FLAC in it."""
    import soundfile

    buffer = io.BytesIO()
    soundfile.write(buffer, y, int(sr), format="FLAC", subtype="PCM_16")
    sound = base64.b64encode(buffer.getvalue()).decode()
    source = f"data:audio/flac;base64,{sound}"
    return f'<audio controls preload="metadata" aria-label="{escape(label)}" src="{source}"></audio>'
