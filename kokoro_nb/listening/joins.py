"""The joins of an utterance that was spoken in pieces, and the level of its every 10 ms."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kokoro_nb.errors import InputError
from kokoro_nb.listening.waveform import Signal, as_signal

AROUND = 0.005  # s at each side of a join in which a click would stand
SHORT = 0.01  # s, of a short-time level


@dataclass(frozen=True)
class Join:
    """One join.

    Attributes
    ----------
    at : float
        Seconds from the beginning.
    level : float
        Level in the 10 ms around it, dB re the loudest 10 ms of the speech: far below, there is no phase to break.
    sharpness : float
        Largest second difference within 5 ms of it, as a share of the largest in all of the speech away from joins. A
        step in the signal or in its slope stands out in it; speech itself reaches 1.
    """

    at: float
    level: float
    sharpness: float


def short_time_level(y: Signal, sr: int) -> np.ndarray:
    """Return the level of every 10 ms, in steps of 1 ms, dB re full scale; -inf where there is silence.

    Parameters
    ----------
    y : numpy.ndarray, shape (n,), float
        Samples, full scale 1.
    sr : int
        Sample rate, Hz.

    Returns
    -------
    numpy.ndarray, shape (milliseconds,), float64
        Value i is centred at i ms; beyond both ends there is silence.
    """
    signal = as_signal(y)
    half, step = round(SHORT * sr / 2), sr // 1000
    power = np.concatenate([[0.0], np.cumsum(np.pad(signal, half) ** 2)])
    centres = np.arange(0, signal.size, step)
    with np.errstate(divide="ignore"):
        return 10 * np.log10(np.maximum(power[centres + 2 * half] - power[centres], 0) / (2 * half))


def joins(pieces: Sequence[Signal], whole: Signal, sr: int) -> tuple[Join, ...]:
    """Look at each join of `pieces` in `whole`.

    Parameters
    ----------
    pieces : sequence of numpy.ndarray, each of shape (samples,), float
        What was joined.
    whole : numpy.ndarray, shape (sum of samples,), float
        The speech, full scale 1.
    sr : int
        Sample rate, Hz.

    Raises
    ------
    InputError
        If the pieces do not add up to the whole, or there is nothing but joins.
    """
    signal = as_signal(whole)
    if sum(map(len, pieces)) != signal.size:
        raise InputError(f"The pieces have {sum(map(len, pieces))} samples and the speech {signal.size}; give its own.")
    ends = np.cumsum([len(piece) for piece in pieces])[:-1]
    around, level = round(AROUND * sr), short_time_level(signal, sr)
    sharp = np.pad(np.abs(np.diff(signal, 2)), 1)
    away = np.ones(signal.size, dtype=bool)
    for end in ends:
        away[max(0, end - around) : end + around] = False
    if not sharp[away].any():
        raise InputError("There is no speech between the joins; give longer pieces.")
    return tuple(
        Join(
            float(end / sr),
            float(level[min(round(1000 * end / sr), level.size - 1)] - level.max()),
            float(sharp[max(0, end - around) : end + around].max() / sharp[away].max()),
        )
        for end in ends
    )
