"""Audio as a notebook shows it: a player with the sound embedded once."""

import base64
import io
from html import escape
from typing import Any

import numpy as np

from kokoro_nb.errors import InputError
from kokoro_nb.markup import Fragment, number

NOT_FINITE = '<span class="knb-chip knb-fail">not finite</span> '


def mono(y: Any, sr: int) -> np.ndarray:
    """Return `y` as a NumPy array after checking that it is one channel of real floating-point audio.

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
    y = np.squeeze(np.asarray(y.detach().cpu() if hasattr(y, "detach") else y))
    y = y.reshape(1) if y.ndim == 0 else y
    if y.ndim != 1 or not y.size:
        raise InputError(f"A player takes one channel of audio, shape (samples,); this has shape {y.shape}.")
    if y.dtype.kind != "f":
        raise InputError(f"A player takes floating-point audio, full scale at 1; this is {y.dtype}.")
    if isinstance(sr, bool) or int(sr) != sr or sr <= 0:
        raise InputError(f"The sampling rate must be a positive whole number of Hz, not {sr!r}.")
    return y


def player(label: str, y: np.ndarray, sr: int) -> Fragment:
    """Return a player with `y` embedded as 16-bit FLAC, which is lossless at that depth and plays in every browser.

    Audio beyond full scale is turned down to fit, and the gain is stated; audio within it is left as loud as it is.
    Audio that is not wholly finite gets a text in place of a player.

    Parameters
    ----------
    label : str
        What is heard.
    y : np.ndarray, shape=(samples,), float
        Audio, full scale at 1.
    sr : int
        Sampling rate in Hz.
    """
    about = f"{y.size / sr:.2f} s · {number(sr)} Hz"
    finite = np.isfinite(y)
    if not finite.all():
        text = f"Not playable: {number(100 * (1 - finite.mean()))} % of {number(y.size)} samples are not finite."
        return _figure(label, about, f"<p>{NOT_FINITE}{text}</p>", text)
    peak = float(np.abs(y.astype(np.float64)).max())
    played = y.astype(np.float64) / max(1.0, peak)
    gain = ""
    if peak > 1:
        gain = f"Beyond full scale: played {20 * np.log10(peak):.1f} dB down. The WAV file is untouched."
    body = sound_element(label, played, sr) + (f"<p>{gain}</p>" if gain else "")
    return _figure(label, f"{about} · {level(peak)}", body, gain)


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


def _figure(label: str, about: str, body: str, text: str) -> Fragment:
    caption = f'<figcaption>{escape(label)}<span class="knb-note">{about}</span></figcaption>'
    html = f'<figure class="knb knb-player">{caption}{body}</figure>'
    return Fragment(html, f"{label}: {about}. {text}".strip())
