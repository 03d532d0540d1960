"""Judges that know nothing of this project: of quality, and of which sentence was said.

How a candidate would be judged against its reference: PESQ (ITU-T P.862.2, wide band) and STOI (Taal et al., 2011).

Both were fitted to what people said and understood; neither knows this project. They compare two signals in time, which
are brought into step first.

Which of several known sentences was said, by pocketsphinx with its own acoustic model, which learnt from people.

Free recognition by it is too weak to judge by; a choice among sentences is sharp and quick. Its features are the
logarithm of band energies less their mean over the utterance. Digital silence, of which espeak-ng puts a good deal
around and between words, has no such logarithm and spoils that mean: of espeak's own `en-us` it then knows 8 sentences
of 20. Noise at -50 dB beneath all that it hears mends this: 20 of 20.
"""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from kokoro_nb.errors import InputError
from kokoro_nb.listening.waveform import Signal, as_pair, as_signal, lag, why_undefined

NOISE_DB = -50.0  # of the signal's power
SILENCE = 0.2  # seconds before and after
RATE = 16_000  # Hz: what the acoustic model was taught at, and wide band
SHORTEST = 0.5  # seconds: STOI needs 30 frames of 12.8 ms, PESQ a quarter of a second
STEP = 0.05  # seconds: how far they may be out of step


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
    y = _resampled(samples, sr)
    y = np.pad(y / (2 * np.abs(y).max()), round(SILENCE * RATE))
    power = np.mean(y**2) * y.size / (y.size - 2 * round(SILENCE * RATE))
    y += np.random.default_rng(seed).normal(0, np.sqrt(power * 10 ** (NOISE_DB / 10)), y.size)
    return (np.clip(y, -1, 1) * 32767).astype("<i2").tobytes()


@cache
def _decoder() -> Any:
    import pocketsphinx

    return pocketsphinx.Decoder(lm=None, samprate=RATE, logfn=os.devnull)


@dataclass(frozen=True)
class PerceivedQuality:
    """What two judges say of a candidate.

    Attributes
    ----------
    pesq : float
        Mean opinion score, 1.04 (bad) to 4.64 (the reference itself); NaN where it cannot be computed.
    stoi : float
        Share of the words that are understood, monotonic and not in proportion, 0 to 1; NaN likewise.
    late : int
        Samples by which the candidate was late, and was moved.
    reason : str
        Why there are no figures; empty where there are.
    """

    pesq: float
    stoi: float
    late: int = 0
    reason: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return the row of a table, with units in its keys."""
        row = {"PESQ wide band (MOS, 1.04 to 4.64)": self.pesq, "STOI (0 to 1)": self.stoi}
        return {**row, "moved by (samples)": self.late, "why not": self.reason}


def perceived_quality(reference: Signal, candidate: Signal, sr: int) -> PerceivedQuality:
    """Let both judge `candidate`.

    Parameters
    ----------
    reference, candidate : numpy.ndarray, shape (n,), float
        Samples at `sr` Hz, of one length.
    sr : int
        Sampling rate, Hz.

    Raises
    ------
    InputError
        If either is no signal, or their lengths differ.
    """
    from pystoi import stoi

    first, second = as_pair(reference, candidate)
    short = f"it is shorter than {SHORTEST:g} s" if first.size < SHORTEST * sr else ""
    reason = short or why_undefined(first, second, ("the reference", "the candidate"))
    if reason:
        return PerceivedQuality(float("nan"), float("nan"), 0, reason)
    found = lag(first, second, min(round(STEP * sr), first.size - 1))
    late = 0 if np.isnan(found) else round(found)
    first, second = (first[: first.size - late], second[late:]) if late >= 0 else (first[-late:], second[:late])
    return PerceivedQuality(_pesq(first, second, sr), float(stoi(first, second, sr)), late)


def _pesq(reference: Signal, candidate: Signal, sr: int) -> float:
    from pesq import NoUtterancesError, pesq

    try:
        return float(pesq(RATE, _resampled(reference, sr), _resampled(candidate, sr), "wb"))
    except NoUtterancesError:
        return float("nan")


def _resampled(y: Signal, sr: int) -> np.ndarray:
    from scipy.signal import resample_poly

    divisor = int(np.gcd(sr, RATE))
    return np.asarray(resample_poly(y, RATE // divisor, sr // divisor))
