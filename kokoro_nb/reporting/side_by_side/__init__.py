"""Versions of one utterance side by side: players at one gain, spectrograms on one scale, what differs beneath.

What a notebook shows is complete without a script: the players stand one below the other. The script makes one player
of them that switches between the versions where it stands, and draws their waveforms.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kokoro_nb.errors import InputError
from kokoro_nb.listening.waveform import finite_fraction, percent, rms_ratio_db
from kokoro_nb.markup import Fragment, number, resource
from kokoro_nb.reporting.embedded import (
    FLOOR_DB,
    MELS,
    NOT_FINITE,
    envelope,
    level,
    mono,
    sound_element,
    spectrograms,
)
from kokoro_nb.reporting.fragments import rendered

MARK = "knb-versions"
HOP = 128  # samples between frames of short audio
COLUMNS = 1000  # frames at most: a page is not wider
BLOCKS = 6000  # of an envelope at most: 12 kB before base64
STEP = 2.0**-15  # of 16 bits
PARTS = ("basics", "view", "sound", "drawing", "lanes", "version", "bar", "ruler", "input", "player", "start")
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
    gain, governing = _gain(samples)
    shown = [_version(name, y, samples[reference], reference, sr, gain) for name, y in samples.items()]
    about = f"{number(size / sr)} s · {number(size)} samples at {number(sr)} Hz"
    loudness = _loudness(gain, governing)
    given: dict[str, Any] = {"mark": MARK, "not_finite": NOT_FINITE, "floor": FLOOR_DB, "mels": MELS, "title": title}
    given |= {"sr": sr, "size": size, "hop": hop, "gain": gain, "about": about, "loudness": loudness}
    html = rendered("versions.html.j2", versions=shown, drawn=drawn, **given)
    text = "\n".join([f"{title}: {about}", *(one["text"] for one in shown), loudness])
    return SideBySide(html, text, resource("reporting/side_by_side/side_by_side.css"))


def _checked(versions: Mapping[str, Any], sr: int) -> dict[str, Floats]:
    if not versions:
        raise InputError("There are no versions to set side by side; give one at least.")
    samples = {name: mono(y, sr).astype(np.float64) for name, y in versions.items()}
    sizes = {name: y.size for name, y in samples.items()}
    if len(set(sizes.values())) > 1:
        each = ", ".join(f"'{name}' has {number(size)}" for name, size in sizes.items())
        raise InputError(f"Versions side by side must have one length, but {each} samples; cut them to what is valid.")
    return samples


def _gain(samples: Mapping[str, Floats]) -> tuple[float, str]:
    """Return the gain at which the loudest playable version is within full scale, and which one that is."""
    peaks = {name: float(np.abs(y).max()) for name, y in samples.items() if np.isfinite(y).all()}
    governing = max(peaks, key=lambda name: peaks[name], default="")
    return 1 / max(1.0, peaks.get(governing, 1.0)), governing


def _loudness(gain: float, governing: str) -> str:
    if gain == 1:
        return "At one gain: nothing is turned up or down."
    down = f"{-20 * math.log10(gain):.1f} dB down, for '{governing}' is beyond full scale"
    return f"At one gain, {down}. The WAV files are untouched."


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
