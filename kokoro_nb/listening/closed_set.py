"""Which of several known sentences was said, by pocketsphinx with its own acoustic model, which learnt from people.

Free recognition by it is too weak to judge by; a choice among sentences is sharp and quick. Its features are the
logarithm of band energies less their mean over the utterance. Digital silence, of which espeak-ng puts a good deal
around and between words, has no such logarithm and spoils that mean: of espeak's own `en-us` it then knows 8 sentences
of 20. Noise at -50 dB beneath all that it hears mends this: 20 of 20.
"""

import os
import re
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from kokoro_nb.errors import InputError
from kokoro_nb.listening.waveform import Signal, as_signal

NOISE_DB = -50.0  # of the signal's power
SILENCE = 0.2  # seconds before and after
RATE = 16_000  # Hz: what the acoustic model was taught at


def unknown_words(texts: Sequence[str]) -> tuple[str, ...]:
    """Return the words of `texts` that the recogniser has no pronunciation of."""
    words = dict.fromkeys(word for text in texts for word in _words(text).split())
    return tuple(word for word in words if _decoder().lookup_word(word) is None)


def identified(sentences: Sequence[str], y: Signal, sr: int, seed: int = 0) -> str | None:
    """Return the one of `sentences` that is heard in `y`.

    Parameters
    ----------
    sentences : sequence of str
        The choices; upper case and punctuation play no part.
    y : numpy.ndarray, shape (n,), float
        Samples at `sr` Hz, of any level.
    seed : int
        Seed of the noise that is added.

    Returns
    -------
    str or None
        None where nothing is heard: the signal is not finite or is silent, or no sentence fits.

    Raises
    ------
    InputError
        If there are not two different sentences, or the recogniser does not know a word of them.
    """
    choices = {_words(sentence): sentence for sentence in sentences}
    if len(choices) < 2:
        raise InputError(f"A choice needs two different sentences or more, not {len(choices)}.")
    missing = unknown_words(list(choices))
    if missing:
        raise InputError(f"The recogniser has no pronunciation of {', '.join(missing)}; leave out what has such words.")
    samples = as_signal(y)
    if not np.isfinite(samples).all() or not samples.any():
        return None
    decoder, grammar = _decoder(), " | ".join(f"( {choice} )" for choice in choices)
    decoder.add_jsgf_string("choice", f"#JSGF V1.0; grammar choice; public <said> = {grammar} ;")
    decoder.activate_search("choice")
    decoder.start_utt()
    decoder.process_raw(_prepared(samples, sr, seed), False, True)  # as one whole: its mean is that of the utterance
    decoder.end_utt()
    heard = decoder.hyp()
    return None if heard is None else choices.get(heard.hypstr)


def _words(text: str) -> str:
    """Return a text in lower case, without its punctuation."""
    return " ".join(re.findall(r"[a-z']+", text.lower()))


def _prepared(samples: np.ndarray, sr: int, seed: int) -> bytes:
    """Return 16 kHz, 16 bits, a peak of half of full scale, with silence around and noise beneath."""
    from scipy.signal import resample_poly

    divisor = int(np.gcd(sr, RATE))
    y = resample_poly(samples, RATE // divisor, sr // divisor)
    y = np.pad(y / (2 * np.abs(y).max()), round(SILENCE * RATE))
    power = np.mean(y**2) * y.size / (y.size - 2 * round(SILENCE * RATE))
    y += np.random.default_rng(seed).normal(0, np.sqrt(power * 10 ** (NOISE_DB / 10)), y.size)
    return (np.clip(y, -1, 1) * 32767).astype("<i2").tobytes()


@cache
def _decoder() -> Any:
    import pocketsphinx

    return pocketsphinx.Decoder(lm=None, samprate=RATE, logfn=os.devnull)
