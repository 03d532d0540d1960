"""What is heard when a speech model's audio differs from what it should be: one check for each way, and for joins.

Each has a limit that does not depend on the fault: a threshold of hearing, or what an error 20 dB beneath the speech,
which hides it at best (tone masking noise in ISO/IEC 13818-7, annex B, with 2 dB to spare), amounts to.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kokoro_nb.errors import InputError
from kokoro_nb.findings import Verdict
from kokoro_nb.listening.comparison import f0_contour
from kokoro_nb.listening.waveform import Signal, as_signal, lag, rms_ratio_db, why_undefined

AROUND = 0.005  # s at each side of a join in which a click would stand
SHORT = 0.01  # s, of a short-time level
LEVEL = 1.0  # dB: the least difference of level that is heard at middling levels (Zwicker and Fastl, 7.1)
PAUSE = -45.0  # dB re the loudest 10 ms: beneath it nothing is said
FLOOR = -70.0  # dB re the loudest 10 ms: what lies beneath it is not heard in the pause either
RISEN = 6.0  # dB above the floor that a pause, or what follows the last phoneme, has
PHASE = 0.1  # rad: an error 20 dB beneath a tone is one tenth of it, across it
PARTIAL = 3.0  # dB: the least difference of the level of one partial of a tone that is heard
FLAT = 3  # samples of one value in a row at the peak
NINTH = 9
WINDOW = 2048  # samples of the frames in which the ninth harmonic is looked at


@dataclass(frozen=True)
class SpeechCheck:
    """One check.

    Attributes
    ----------
    name : str
        What is looked at.
    verdict : str
        ``pass``, ``fail``, or ``unknown`` where it has no meaning for this audio.
    value : float
        What was measured; NaN if unknown.
    unit : str
        Of the value.
    limit : float
        How large its absolute value may be.
    reason : str
        Why it is unknown.
    """

    name: str
    verdict: Verdict
    value: float
    unit: str
    limit: float
    reason: str = ""

    def __str__(self) -> str:
        if self.verdict == "unknown":
            return f"{self.name}: unknown, {self.reason}"
        return f"{self.name}: {self.value:.3g} {self.unit}, at most {self.limit:g}"


def speech_checks(
    reference: Signal,
    candidate: Signal,
    sr: int,
    durations: tuple[Sequence[int], Sequence[int]] | None = None,
) -> tuple[SpeechCheck, ...]:
    """Check audio of one utterance against what it should be.

    Parameters
    ----------
    reference, candidate : numpy.ndarray, shape (n,), float
        Samples, full scale 1.
    sr : int
        Sample rate, Hz.
    durations : pair of sequences of int, optional
        Frames of each token of the reference and of the candidate, the last one a pad: they say where speech ends.

    Returns
    -------
    tuple of SpeechCheck
        Durations, level, lag, pause floor, clipping, phase noise, 9th harmonic, tail.
    """
    first, second = as_signal(reference), as_signal(candidate)
    found = [_durations(durations)]
    reason = _reason(first, second)
    if reason:
        names = {"level": "dB", "lag": "samples", "pause floor": "dB", "clipping": "samples", "phase noise": "rad"}
        names |= {"9th harmonic": "dB", "tail": "dB"}
        return (*found, *(SpeechCheck(name, "unknown", math.nan, unit, 0.0, reason) for name, unit in names.items()))
    late = lag(first, second, min(sr // 400, len(first) - 1))  # under one period of a high voice
    beside = np.roll(second, -int(late))  # what lies in time is one fault, and not another one in each pause
    levels = short_time_level(first, sr), short_time_level(beside, sr)
    quiet, ends = levels[0] < levels[0].max() + PAUSE, np.zeros(levels[0].size, bool)
    if durations is not None and int(np.sum(durations[0])):
        ends[round(ends.size * int(np.sum(durations[0][:-1])) / int(np.sum(durations[0]))) :] = True
    absent = "it is not known where the last phoneme ends" if durations is None else "speech does not end before it"
    found.append(_checked("level", rms_ratio_db(first, second), "dB", LEVEL))
    found.append(_checked("lag", late, "samples", 0.0))
    found.append(_risen("pause floor", levels, quiet & ~ends, np.median, "nothing pauses in it"))
    found.append(_checked("clipping", float(flat_tops(second) - flat_tops(first)), "samples", 0.0))
    found.append(_checked("phase noise", phase_noise(first, beside), "rad", PHASE))
    found.append(_ninth(first, beside, sr))
    found.append(_risen("tail", levels, quiet & ends, np.mean, absent))
    return tuple(found)


def _reason(first: np.ndarray, second: np.ndarray) -> str:
    if first.shape != second.shape:
        return f"{len(second):,} samples cannot be laid beside {len(first):,}"
    return why_undefined(first, second, ("what is right", "the audio"))


def _checked(name: str, value: float, unit: str, limit: float, reason: str = "") -> SpeechCheck:
    if math.isnan(value):
        return SpeechCheck(name, "unknown", value, unit, limit, reason or "it has no value here")
    return SpeechCheck(name, "pass" if abs(value) <= limit else "fail", value, unit, limit)


def _durations(durations: tuple[Sequence[int], Sequence[int]] | None) -> SpeechCheck:
    if durations is None:
        return SpeechCheck("durations", "unknown", math.nan, "frames", 0.0, "they are no output")
    first, second = (np.asarray(one, np.int64).reshape(-1) for one in durations)
    if first.shape != second.shape:
        return SpeechCheck("durations", "fail", math.inf, "frames", 0.0)
    return _checked("durations", float(np.abs(first - second).max(initial=0)), "frames", 0.0)


def _risen(
    name: str,
    levels: tuple[np.ndarray, np.ndarray],
    where: np.ndarray,
    middle: Callable[[np.ndarray], Any],
    absent: str,
) -> SpeechCheck:
    """Compare the power in some milliseconds, counted from the floor of hearing on; only more of it is a fault."""
    if not where.any():
        return SpeechCheck(name, "unknown", math.nan, "dB", RISEN, absent)
    floor = 10 ** ((levels[0].max() + FLOOR) / 10)
    before, now = (float(np.maximum(middle(10 ** (one[where] / 10)), floor)) for one in levels)
    return _checked(name, float(np.maximum(10 * np.log10(now / before), 0.0)), "dB", RISEN)


def flat_tops(y: np.ndarray) -> int:
    """Return how many samples stand in rows of three and more of one value, at nine tenths of the peak and above."""
    same = (y[1:] == y[:-1]) & (np.abs(y[1:]) >= 0.9 * np.abs(y).max(initial=0.0))
    edges = np.flatnonzero(np.diff(np.concatenate([[0], same.astype(np.int8), [0]])))
    rows = edges[1::2] - edges[::2] + 1
    return int(rows[rows >= FLAT].sum())


def phase_noise(first: np.ndarray, second: np.ndarray) -> float:
    """Return how far phases stray in bins within 40 dB of the loudest, rad: their circular standard deviation.

    Each bin counts by both magnitudes. Of a tone whose phase is shaken by normal noise it is that noise's standard
    deviation (Mardia and Jupp, 2.3).
    """
    from scipy.signal import stft

    one, other = (stft(y, nperseg=1024, noverlap=768)[2] for y in (first, second))
    power = np.square(np.abs(one))
    heard = power > 1e-4 * power.max()
    turned = other[heard] * one[heard].conj()
    together = np.abs(turned.sum()) / np.abs(turned).sum()
    return float(np.sqrt(-2 * np.log(np.clip(together, 1e-300, 1.0))))


def _ninth(first: np.ndarray, second: np.ndarray, sr: int) -> SpeechCheck:
    """Compare the level around the ninth harmonic over time: the worst second in which it stands out."""
    contour = f0_contour(first, sr)
    frames, window = np.arange(WINDOW) - WINDOW // 2, np.hanning(WINDOW)
    powers: dict[int, list[tuple[float, float]]] = {}
    for time, pitch in zip(contour.times, contour.f0, strict=True):
        if np.isnan(pitch) or NINTH * pitch > 0.9 * sr / 2:
            continue
        places = np.clip(round(time * sr) + frames, 0, len(first) - 1)
        spectra = [np.square(np.abs(np.fft.rfft(y[places] * window))) for y in (first, second)]
        bins = np.abs(np.arange(spectra[0].size) * sr / WINDOW - NINTH * pitch)
        near, beside = bins <= 0.2 * pitch, (bins > 0.35 * pitch) & (bins <= 0.5 * pitch)
        if spectra[0][near].mean() > 10 * spectra[0][beside].mean():  # it stands out of what lies beside it
            powers.setdefault(int(time), []).append((float(spectra[0][near].sum()), float(spectra[1][near].sum())))
    ratios = [
        10 * np.log10(np.maximum(np.sum(b), 1e-300) / np.sum(a))
        for a, b in (zip(*p, strict=True) for p in powers.values())
    ]
    worst = float(ratios[int(np.argmax(np.abs(ratios)))]) if ratios else math.nan
    return _checked("9th harmonic", worst, "dB", PARTIAL, "it stands out nowhere")


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
