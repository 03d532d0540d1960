"""The first two formants of a voice over time, by linear prediction."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kokoro_nb.errors import InputError
from kokoro_nb.listening.waveform import Signal, as_signal

Floats = NDArray[np.float64]

CEILING = 5000.0  # Hz: five formants of an adult's vocal tract lie below it
ORDER = 10  # two poles for each of five formants
PRE_EMPHASIS = 50.0  # Hz: +6 dB per octave from here on, against the fall of the glottal pulses
WINDOW = 0.03  # seconds: three periods of a low voice
HOP = 120  # samples: 5 ms at 24 kHz
LOWEST = 150.0  # Hz: what lies below is the fundamental, or the slope of the spectrum
COUNTED = 700.0  # Hz: a pole of a larger bandwidth is the slope of the spectrum and no formant
WIDEST = 300.0  # Hz: a vowel's formants are 30 to 190 wide, what counts as the first of noise is in 1 of 100 frames
GATE_DB = -40.0  # re the loudest frame


@dataclass(frozen=True)
class FormantTrack:
    """The first two formants over time.

    Attributes
    ----------
    times : numpy.ndarray, shape (frames,), float64, seconds
        Centre of each frame.
    frequencies : numpy.ndarray, shape (frames, 2), float64, Hz
        F1 and F2; NaN where the frame has none.
    bandwidths : numpy.ndarray, shape (frames, 2), float64, Hz
        At -3 dB; NaN where the frequency is.
    """

    times: Floats
    frequencies: Floats
    bandwidths: Floats

    def middle(self, begin: float, end: float) -> Floats:
        """Return F1 and F2 of a sound from `begin` to `end` seconds: the median over its middle half.

        Returns
        -------
        numpy.ndarray, shape (2,), float64, Hz
            NaN where fewer than half of the frames have the formant, or there is no frame.
        """
        quarter = (end - begin) / 4
        inside = self.frequencies[(self.times >= begin + quarter) & (self.times <= end - quarter)]
        enough = 2 * np.isfinite(inside).sum(axis=0) >= max(1, len(inside))
        return np.where(enough, median_of_columns(inside), np.nan)


def formant_tracks(
    y: Signal,
    sr: int,
    hop_length: int = HOP,
    ceiling: float = CEILING,
    order: int = ORDER,
    widest: float = WIDEST,
    gate_db: float = GATE_DB,
) -> FormantTrack:
    """Measure F1 and F2: the two lowest resonances of the all-pole model of each frame.

    The signal is resampled to twice the ceiling and pre-emphasised from 50 Hz on; Burg's method fits the model to 30 ms
    under a Hamming window. A pole pair at ``r exp(+-i w)`` is a resonance at ``w fs / 2 pi`` with a bandwidth of
    ``-ln(r) fs / pi`` (Markel and Gray, 1976; the settings are those of Praat, Boersma and Weenink). It counts from
    150 Hz to 50 Hz below the ceiling and up to 700 Hz wide; if it is wider than `widest` its place in the order stays,
    and it is NaN: dropped altogether, F2 would be taken for F1.

    Parameters
    ----------
    y : numpy.ndarray, shape (n,), float
        Samples, full scale 1. A frame that touches one that is not finite has no formants.
    sr : int
        Sample rate in Hz.
    hop_length : int
        Hop in samples; frame ``t`` is centred at sample ``t * hop_length``, zeros beyond the ends.
    ceiling : float
        Highest formant that is looked for, in Hz, at most ``sr / 2``; women's are a tenth higher than men's.
    order : int
        Poles, twice the number of formants below the ceiling.
    widest : float
        Largest bandwidth of a formant in Hz.
    gate_db : float
        A frame that is fainter than this, in dB re the loudest, has no formants.

    Returns
    -------
    FormantTrack
        With ``1 + n // hop_length`` frames.

    Raises
    ------
    InputError
        If `y` is no signal, or the ceiling lies above half the sample rate.
    """
    import librosa

    samples = as_signal(y)
    if not (LOWEST < ceiling <= sr / 2 and hop_length >= 1 and order >= 4):
        raise InputError(
            f"ceiling={ceiling:g}, hop_length={hop_length}, order={order}: give a ceiling of {LOWEST:g} Hz to half the "
            f"sample rate, {sr / 2:g} Hz, a hop of 1 sample or more and an order of 4 or more."
        )
    rate = 2 * round(ceiling)
    times = np.arange(1 + len(samples) // hop_length) * hop_length / sr
    frames = _frames(samples, sr, rate, times)
    found = np.full((len(times), 2, 2), np.nan)
    finite = np.isfinite(frames).all(axis=1)
    power = np.where(finite, np.mean(frames**2, axis=1), 0.0)  # a frame that is not finite is not measured
    loud = power > power.max() * 10 ** (gate_db / 10)  # none in silence: 0 is not above 0
    if loud.any():
        polynomials = librosa.lpc(frames[loud] * np.hamming(frames.shape[1]), order=order)
        found[loud] = _resonances(polynomials, rate, widest)
    return FormantTrack(times, found[..., 0], found[..., 1])


def median_of_columns(values: Floats) -> Floats:
    """Return the median of what each column, ``(rows, columns)``, has but NaN; NaN where it has nothing else.

    >>> median_of_columns(np.array([[1.0, np.nan], [3.0, np.nan], [np.nan, np.nan]])).tolist()
    [2.0, nan]
    """
    columns = (column[~np.isnan(column)] for column in values.T)
    return np.array([np.median(column) if len(column) else np.nan for column in columns])


def _frames(samples: Floats, sr: int, rate: int, times: Floats) -> Floats:
    """Return the pre-emphasised windows around `times` at `rate` Hz, shape (frames, window)."""
    from scipy.signal import resample_poly

    common = math.gcd(rate, sr)
    slow = resample_poly(samples, rate // common, sr // common)
    with np.errstate(invalid="ignore"):  # infinity less infinity is NaN, and meant to be
        emphasised = np.append(slow[:1], slow[1:] - math.exp(-2 * math.pi * PRE_EMPHASIS / rate) * slow[:-1])
    half = round(WINDOW * rate / 2)
    # a window beyond the last sample may begin one sample after it, by rounding
    padded = np.pad(emphasised, (half, half + 1))
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * half)
    return windows[np.rint(times * rate).astype(int)]


def _resonances(polynomials: Floats, rate: int, widest: float) -> Floats:
    """Return (frequency, bandwidth) in Hz of the two lowest resonances of each prediction polynomial.

    Parameters
    ----------
    polynomials : numpy.ndarray, shape (frames, order + 1), float64
        The first coefficient 1.

    Returns
    -------
    numpy.ndarray, shape (frames, 2, 2), float64
        NaN where there is none.
    """
    count, order = len(polynomials), polynomials.shape[1] - 1
    companion = np.tile(np.eye(order, k=-1), (count, 1, 1))
    companion[:, 0] = -polynomials[:, 1:]
    roots = np.linalg.eigvals(companion)
    frequencies = np.angle(roots) * rate / (2 * math.pi)
    with np.errstate(divide="ignore"):  # a root at zero is infinitely wide
        bandwidths = -np.log(np.abs(roots)) * rate / math.pi
    counted = (frequencies >= LOWEST) & (frequencies <= rate / 2 - PRE_EMPHASIS) & (bandwidths <= COUNTED)
    lowest = np.argsort(np.where(counted, frequencies, np.nan), axis=1)[:, :2]  # NaN comes last
    resonant = np.take_along_axis(counted & (bandwidths <= widest), lowest, axis=1)
    pairs = [np.take_along_axis(values, lowest, axis=1) for values in (frequencies, bandwidths)]
    return np.where(resonant[..., None], np.stack(pairs, axis=-1), np.nan)
