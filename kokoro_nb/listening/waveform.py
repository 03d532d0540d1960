"""Measures on the samples themselves, joins of pieces among them, and float WAV files that keep every one of them.

Signals are one-dimensional float arrays, full scale 1. Nothing is repaired on the way: a NaN in a signal comes out as
a NaN, two signals of different lengths are refused, and a ratio to silence is infinite or NaN as its arithmetic says.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kokoro_nb.errors import InputError
from kokoro_nb.storage import atomic

Signal = NDArray[np.floating]
Floats = NDArray[np.float64]
LONGEST = 2**28  # samples of a file that is read, three hours at 24 kHz; a header can claim any number
AROUND = 0.005  # s at each side of a join in which a click would stand
SHORT = 0.01  # s, of a short-time level


def as_signal(y: Any, name: str = "signal") -> Floats:
    """Return `y` as float64 samples after checking that it is one real, non-empty channel.

    Parameters
    ----------
    y : array_like of float, shape (n,)
        Samples, full scale 1. NaN and infinity are let through.
    name : str
        What the error calls it.

    Returns
    -------
    numpy.ndarray, shape (n,), float64

    Raises
    ------
    InputError
        If `y` is empty, has another number of dimensions, or holds no floating-point numbers.
    """
    array = np.asarray(y)
    if not np.issubdtype(array.dtype, np.floating):
        raise InputError(f"The {name} holds {array.dtype}; give floating-point samples with full scale 1.")
    if array.ndim != 1:
        raise InputError(f"The {name} has the shape {array.shape}; give one channel, of shape (samples,).")
    if not array.size:
        raise InputError(f"The {name} is empty; give at least one sample.")
    return array.astype(np.float64)


def as_pair(reference: Any, candidate: Any) -> tuple[Floats, Floats]:
    """Return two signals as float64 after checking that they have one length.

    Raises
    ------
    InputError
        If either is no signal, or their lengths differ.
    """
    first, second = as_signal(reference, "reference"), as_signal(candidate, "candidate")
    if len(first) != len(second):
        raise InputError(
            f"The reference has {len(first)} samples and the candidate {len(second)}; "
            "cut both to the frames that are valid in both, knowingly, before they are compared."
        )
    return first, second


def ratio_db(power: float, reference: float) -> float:
    """Return ``10 log10(power / reference)``: infinite against one zero, NaN where both are zero.

    >>> ratio_db(1.0, 10.0), ratio_db(1.0, 0.0), ratio_db(0.0, 0.0)
    (-10.0, inf, nan)
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(10 * np.log10(np.float64(power) / np.float64(reference)))


def finite_fraction(y: Signal) -> float:
    """Return the fraction of samples in `y`, shape (n,), that are neither NaN nor infinite."""
    return float(np.mean(np.isfinite(as_signal(y))))


def percent(fraction: float) -> str:
    """Return `fraction` in percent to four digits, where all but one sample in a million never reads "100 %".

    >>> percent(1.0), percent(0.999999), percent(0.375), percent(0.0)
    ('100 %', '99.99 %', '37.5 %', '0 %')
    """
    return f"{min(100 * fraction, 99.99) if fraction < 1 else 100 * fraction:.4g} %"


def percent_finite(y: Signal) -> str:
    """Return the finite fraction of `y`, shape (n,), in words.

    >>> percent_finite(np.array([0.5, np.nan, np.inf, 0.1]))
    '50 % finite'
    """
    return f"{percent(finite_fraction(y))} finite"


def why_undefined(first: Signal, second: Signal, names: tuple[str, str]) -> str:
    """Return why measures of these two signals may be NaN: the most severe reason, or none."""
    signals = tuple(zip(names, (first, second), strict=True))
    broken = [f"{name} is {percent_finite(y)}" for name, y in signals if not np.isfinite(y).all()]
    silent = [f"{name} is silent" for name, y in signals if not y.any()]
    return " and ".join(broken or silent)


def peak(y: Signal) -> float:
    """Return the largest magnitude in `y`, shape (n,); full scale is 1, NaN if any sample is."""
    return float(np.max(np.abs(as_signal(y))))


def rms(y: Signal) -> float:
    """Return the root mean square of `y`, shape (n,); full scale is 1, NaN if any sample is."""
    return float(np.sqrt(np.mean(np.square(as_signal(y)))))


def rms_ratio_db(reference: Signal, candidate: Signal) -> float:
    """Return the level of `candidate` in dB re `reference`, both of shape (n,); 0 where they are equally loud.

    Against a silent reference it is infinite, and NaN where both are silent or either is not finite.
    """
    first, second = _finite_pair(reference, candidate)
    return ratio_db(rms(second) ** 2, rms(first) ** 2)


def snr_db(reference: Signal, candidate: Signal) -> float:
    """Return the signal-to-noise ratio of `candidate`, its difference from `reference` being the noise.

    Parameters
    ----------
    reference, candidate : numpy.ndarray, shape (n,), float
        Samples, full scale 1.

    Returns
    -------
    float
        ``10 log10(sum(reference^2) / sum((candidate - reference)^2))`` in dB; infinite for identical signals, minus
        infinity against a silent reference, NaN if either is not finite.

    >>> round(snr_db(np.array([1.0, -1.0]), np.array([1.1, -1.1])), 6)
    20.0
    """
    first, second = _finite_pair(reference, candidate)
    if np.array_equal(first, second):
        return math.inf
    return ratio_db(float(np.sum(first**2)), float(np.sum((second - first) ** 2)))


def max_error_of_peak(reference: Signal, candidate: Signal) -> float:
    """Return the largest magnitude of the difference as a fraction of the reference's peak, shapes (n,).

    Against a silent reference it is infinite, and NaN where both are silent or either is not finite.
    """
    first, second = _finite_pair(reference, candidate)
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.max(np.abs(second - first)) / np.float64(peak(first)))


def correlation(reference: Signal, candidate: Signal) -> float:
    """Return Pearson's correlation coefficient of two signals of shape (n,), at lag zero.

    It is NaN if either is constant (its variance is zero) or not finite.
    """
    first, second = _finite_pair(reference, candidate)
    return float(np.corrcoef(first, second)[0, 1]) if np.ptp(first) and np.ptp(second) else math.nan


def lag(reference: Signal, candidate: Signal, max_lag: int) -> float:
    """Return by how many samples `candidate` comes later than `reference`, where their cross-correlation peaks.

    Parameters
    ----------
    reference, candidate : numpy.ndarray, shape (n,), float
        Samples, full scale 1.
    max_lag : int
        Largest lag that is looked at, to both sides, in samples; keep it under one period of the voice, or a
        neighbouring period may win.

    Returns
    -------
    float
        Lag in whole samples, negative where the candidate comes early; NaN if either signal is silent or not finite.

    Raises
    ------
    InputError
        If `max_lag` is negative or not shorter than the signals.
    """
    from scipy.signal import correlate, correlation_lags

    first, second = _finite_pair(reference, candidate)
    if not 0 <= max_lag < len(first):
        most = len(first) - 1
        raise InputError(f"A lag of {max_lag} samples cannot be looked for in {most + 1}; give 0 to {most}.")
    if np.isnan(first[0]) or not first.any() or not second.any():
        return math.nan
    lags = correlation_lags(len(second), len(first))
    near = np.abs(lags) <= max_lag
    return float(lags[near][np.argmax(correlate(second, first)[near])])


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


def write_wav(path: str | Path, y: Signal, sr: int) -> Path:
    """Write `y` as a 32-bit float WAV file, whole or not at all, and return the path.

    PCM would clip at full scale, and so a fault of 1e9 would sound like a loud one; float keeps it, and NaN too.

    Parameters
    ----------
    path : str or Path
        The file to write.
    y : numpy.ndarray, shape (n,), float
        Samples, full scale 1; larger values, NaN and infinity are kept.
    sr : int
        Sample rate in Hz.

    Raises
    ------
    InputError
        If `y` is no signal, is beyond the range of float32, or `sr` is no positive whole number.
    """
    import soundfile

    samples = as_signal(y)
    with np.errstate(over="ignore"):
        narrow = samples.astype(np.float32)
    if np.isinf(narrow).sum() != np.isinf(samples).sum():
        raise InputError("The signal exceeds the range of 32-bit floats; scale it before it is written.")
    if not (isinstance(sr, int | np.integer) and sr > 0):
        raise InputError(f"{sr!r} is no sample rate; give a positive whole number in Hz.")
    with atomic(path) as draft:
        soundfile.write(draft, narrow, int(sr), format="WAV", subtype="FLOAT")
    return Path(path)


def read_wav(path: str | Path) -> tuple[NDArray[np.float32], int]:
    """Read a mono sound file and return its samples, shape (n,), float32, full scale 1, and its sample rate in Hz.

    Raises
    ------
    InputError
        If the file is absent, is no sound file, has more than one channel, or claims to last longer than `LONGEST`.
    """
    import soundfile

    if not Path(path).is_file():
        raise InputError(f"There is no sound file at {path}; check the path.")
    try:
        claimed = soundfile.info(path)
        if claimed.frames * claimed.channels > LONGEST:  # before memory is taken for it
            raise InputError(f"{path} claims to have {claimed.frames} samples; give a sound of at most {LONGEST}.")
        samples, sr = soundfile.read(path, dtype="float32", always_2d=True)
    except soundfile.LibsndfileError as error:
        raise InputError(f"{path} cannot be read as a sound file ({error.error_string}).") from error
    if samples.shape[1] != 1:
        raise InputError(f"{path} has {samples.shape[1]} channels; give a file with one.")
    return samples[:, 0], sr


def _finite_pair(reference: Signal, candidate: Signal) -> tuple[Floats, Floats]:
    """Return both as `as_pair` does; if a sample of either is not finite, all NaN, and so is what is computed of it."""
    pair = as_pair(reference, candidate)
    nothing = np.full(len(pair[0]), math.nan)
    return pair if np.isfinite(pair).all() else (nothing, nothing)
