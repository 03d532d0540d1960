"""The fundamental frequency of a signal, and how far that of another one strays from it."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kokoro_nb.errors import InputError
from kokoro_nb.listening.waveform import Signal, as_pair, as_signal, percent_finite


@dataclass(frozen=True)
class F0Contour:
    """Fundamental frequency over time.

    Attributes
    ----------
    times : numpy.ndarray, shape (frames,), float64
        Centre of each frame in seconds.
    f0 : numpy.ndarray, shape (frames,), float64
        Hz; NaN where the frame is unvoiced, and only there.
    """

    times: NDArray[np.float64]
    f0: NDArray[np.float64]

    @property
    def voiced(self) -> NDArray[np.bool_]:
        """Which frames are voiced, shape (frames,)."""
        return ~np.isnan(self.f0)


@dataclass(frozen=True)
class F0Difference:
    """How far one contour strays from another.

    Attributes
    ----------
    median_cents : float
        Median of ``|1200 log2(candidate / reference)|`` over the frames that are voiced in both, in cents.
    voicing_disagreement : float
        Fraction of frames that are voiced in one and not in the other.
    voiced_in_both : int
        Number of frames behind `median_cents`; with none of them it is NaN.
    """

    median_cents: float
    voicing_disagreement: float
    voiced_in_both: int


def f0_contour(
    y: Signal,
    sr: int,
    fmin: float = 50.0,
    fmax: float = 600.0,
    frame_length: int = 2048,
    hop_length: int = 300,
    voicing: float = 0.05,
    gate_db: float = -50.0,
) -> F0Contour:
    """Return the fundamental frequency of `y` by probabilistic YIN (Mauch and Dixon, 2014).

    A frame is voiced where pYIN's path says so, and its probability of voicing reaches `voicing`, and its RMS comes
    within `gate_db` of the loudest frame's. The second gate drops the low notes that pYIN's path sees in noise: there
    the probability stays at 0.01, and it is 0.2 to 0.9 in vowels. Frequencies lie on pYIN's grid of 10 cents.

    Parameters
    ----------
    y : numpy.ndarray, shape (n,), float
        Samples, full scale 1.
    sr : int
        Sample rate in Hz.
    fmin, fmax : float
        Range that is searched, in Hz.
    frame_length, hop_length : int
        Frame and hop in samples; frame ``t`` is centred at sample ``t * hop_length``.
    voicing : float
        Smallest probability of voicing, 0 to 1.
    gate_db : float
        Smallest RMS of a frame in dB re the loudest frame.

    Returns
    -------
    F0Contour
        With ``1 + n // hop_length`` frames.

    Raises
    ------
    InputError
        If `y` is not finite: an unvoiced frame would look the same.
    """
    import librosa

    samples = as_signal(y)
    if not np.isfinite(samples).all():
        raise InputError(f"The signal is {percent_finite(samples)}, and has no F0 to be found; look at its NaN first.")
    f0, flag, probability = librosa.pyin(
        samples, fmin=fmin, fmax=fmax, sr=sr, frame_length=frame_length, hop_length=hop_length
    )
    level = librosa.feature.rms(y=samples, frame_length=frame_length, hop_length=hop_length)[0]
    voiced = flag & (probability >= voicing) & (level >= level.max() * 10 ** (gate_db / 20))
    times = librosa.times_like(f0, sr=sr, hop_length=hop_length)
    return F0Contour(times, np.where(voiced, f0, np.nan))


def f0_difference(reference: F0Contour, candidate: F0Contour) -> F0Difference:
    """Compare two contours frame by frame.

    Raises
    ------
    InputError
        If they do not have the same frames.
    """
    if not np.array_equal(reference.times, candidate.times):
        raise InputError("The two F0 contours have different frames; take both with one hop from one length.")
    both = reference.voiced & candidate.voiced
    cents = 1200 * np.log2(candidate.f0[both] / reference.f0[both])
    return F0Difference(
        median_cents=float(np.median(np.abs(cents))) if both.any() else math.nan,
        voicing_disagreement=float(np.mean(reference.voiced != candidate.voiced)),
        voiced_in_both=int(both.sum()),
    )


def compare_f0(reference: Signal, candidate: Signal, sr: int) -> F0Difference:
    """Compare the contours of two signals of shape (n,) at `sr` Hz; NaN if either is not finite.

    Raises
    ------
    InputError
        If either is no signal, or their lengths differ.
    """
    first, second = as_pair(reference, candidate)
    if not (np.isfinite(first).all() and np.isfinite(second).all()):
        return F0Difference(math.nan, math.nan, 0)
    return f0_difference(f0_contour(first, sr), f0_contour(second, sr))
