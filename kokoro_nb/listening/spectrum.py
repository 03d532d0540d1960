"""Measures on short-time spectra, in librosa's conventions: `y`, `sr` in Hz, `n_fft` and `hop_length` in samples.

librosa refuses audio with a NaN in it. Here a frame that touches one becomes NaN as a whole and the others stay, so a
measure over all frames is NaN and a picture shows where. No logarithm is taken of a hidden epsilon: the floor is an
argument, in dB re the reference's own maximum.

Before the source's atan2 any rounding makes another waveform, in two runtimes that are both right. Their spectra stay
near each other, and how near is measured on the model itself, in float32 against float64.
The limit of a distance comes from that: see `SpectralAgreement`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kokoro_nb.errors import InputError
from kokoro_nb.listening.waveform import Floats, Signal, as_pair, as_signal

BANDS = ((0, 150), (150, 300), (300, 600), (600, 1200), (1200, 2400), (2400, 4800), (4800, 9600), (9600, 12000))
"""Octaves from 150 Hz up, in Hz, with what lies below and above them at 24 kHz."""

TRANSPARENT = 1.0  # dB: a distance that is not heard (Paliwal and Atal, 1993)
UNRELATED = 20 * np.pi / np.log(10) / np.sqrt(12)
"""dB, 7.88: two draws of noise of one spectrum. Their powers in a bin are exponentially distributed; the logarithm of
one has the variance pi**2 / 6, and that of their ratio twice as much."""
# of the floor, what a limit has to be at least: healthy deliveries were at 0.86 to 1.07 of it (6 texts at full size)
CLEAR = 1.25

RESOLUTIONS = ((1024, 120, 600), (2048, 240, 1200), (512, 50, 240))
"""FFT size, hop and window length in samples, as in Yamamoto et al. (2020)."""


def power_spectrogram(y: Signal, n_fft: int = 1024, hop_length: int = 256, win_length: int | None = None) -> Floats:
    """Return the squared magnitude of the short-time Fourier transform, equal to ``abs(librosa.stft(y)) ** 2``.

    Parameters
    ----------
    y : numpy.ndarray, shape (n,), float
        Samples, full scale 1.
    n_fft, hop_length : int
        FFT size and hop in samples; frame ``t`` is centred at sample ``t * hop_length``, zeros beyond the ends.
    win_length : int or None
        Length in samples of the periodic Hann window, centred in the FFT frame; None for `n_fft`.

    Returns
    -------
    numpy.ndarray, shape (1 + n_fft // 2, 1 + n // hop_length), float64
        Power; every bin of a frame that touches a sample that is not finite is NaN.
    """
    import librosa

    window = librosa.util.pad_center(librosa.filters.get_window("hann", win_length or n_fft), size=n_fft)
    padded = np.pad(as_signal(y), n_fft // 2)
    # an infinite sample times the window's first zero is NaN, and meant to be
    with np.errstate(invalid="ignore"):
        frames = librosa.util.frame(padded, frame_length=n_fft, hop_length=hop_length) * window[:, None]
    # it would leave some bins infinite and others NaN
    frames[:, ~np.isfinite(frames).all(axis=0)] = np.nan
    return np.abs(np.fft.rfft(frames, axis=0)) ** 2


def mel_spectrogram(y: Signal, sr: int, n_fft: int = 1024, hop_length: int = 256, n_mels: int = 80) -> Floats:
    """Return the power of `y`, shape (n,), in `n_mels` mel bands from 0 Hz to ``sr / 2`` (Slaney's scale and norm).

    Returns
    -------
    numpy.ndarray, shape (n_mels, 1 + n // hop_length), float64
        NaN in every frame that touches a sample that is not finite.
    """
    import librosa

    filters = librosa.filters.mel(sr=sr, n_fft=n_fft, n_mels=n_mels, dtype=np.float64)
    return filters @ power_spectrogram(y, n_fft, hop_length)


def floored_db(power: Any, maximum: float, floor_db: float) -> Floats:
    """Return `power`, any shape, in dB re `maximum`, what lies under `floor_db` lifted to it; NaN stays NaN.

    With a `maximum` of zero (a silent reference) there is nothing to refer to, and all is NaN.

    >>> floored_db(np.array([1.0, 0.01, 0.0, np.nan]), 1.0, -60.0).tolist()
    [0.0, -20.0, -60.0, nan]
    """
    if not maximum > 0:
        return np.full(np.shape(power), np.nan)
    with np.errstate(divide="ignore"):
        return np.maximum(10 * np.log10(np.asarray(power, dtype=np.float64) / maximum), floor_db)


def average_spectrum(y: Signal, sr: int, n_fft: int = 1024) -> tuple[Floats, Floats]:
    """Return the frequencies and the mean power of the short-time spectra of a signal (Welch, 1967).

    Parameters
    ----------
    y : numpy.ndarray, shape (n,), float
        Samples, full scale 1.
    sr : int
        Sample rate in Hz.
    n_fft : int
        FFT size in samples.

    Returns
    -------
    numpy.ndarray, shape (1 + n_fft // 2,), float64
        Frequencies in Hz.
    numpy.ndarray, shape (1 + n_fft // 2,), float64
        Power; NaN if any sample is not finite.
    """
    power: Floats = power_spectrogram(y, n_fft, n_fft // 4).mean(axis=1)
    frequencies: Floats = np.arange(len(power), dtype=np.float64) * sr / n_fft
    return frequencies, power


def spectral_flatness(y: Signal, n_fft: int = 1024) -> float:
    """Return the geometric over the arithmetic mean of the average power spectrum: 1 for white noise, 0 for a tone.

    librosa's measure adds a floor to the power, and so calls silence perfectly flat; here silence is NaN. The zero and
    the half frequency are left out (Johnston, 1988).
    """
    _, power = average_spectrum(y, 1, n_fft)
    inner = power[1:-1]
    with np.errstate(divide="ignore", invalid="ignore"):  # log 0 is -inf, and its mean gives 0: a spectrum with a hole
        return float(np.exp(np.log(inner).mean()) / inner.mean())


def band_energies(y: Signal, sr: int, bands: Sequence[tuple[float, float]] = BANDS) -> Floats:
    """Return the mean power of `y` in each band.

    Parameters
    ----------
    y : numpy.ndarray, shape (n,), float
        Samples, full scale 1.
    sr : int
        Sample rate in Hz.
    bands : sequence of (float, float)
        Lower edge (included) and upper edge (left out, but for ``sr / 2``) of each band in Hz.

    Returns
    -------
    numpy.ndarray, shape (len(bands),), float64
        Mean over frames of the power in the band, in full scale squared: over all bands together the mean square of a
        stationary signal (Parseval). All NaN if any sample is not finite.

    Raises
    ------
    InputError
        If a band does not lie within 0 to ``sr / 2``, or is narrower than one bin.
    """
    n_fft = 2048
    frequencies = np.fft.rfftfreq(n_fft, 1 / sr)
    # every bin but the first and the last stands for its negative frequency too
    weight = np.full(len(frequencies), 2.0)
    weight[[0, -1]] = 1.0
    density = weight * power_spectrogram(y, n_fft, n_fft // 4).mean(axis=1) / (n_fft * (3 / 8 * n_fft))
    energies = []
    for low, high in bands:
        top = math.inf if high == sr / 2 else high
        inside = np.logical_and(frequencies >= low, frequencies < top)
        if not (low >= 0 and high <= sr / 2 and inside.any()):
            raise InputError(
                f"The band {low:g}-{high:g} Hz cannot be measured at {sr} Hz; give bands within 0-{sr / 2:g} Hz, "
                f"at least {sr / n_fft:.3g} Hz wide."
            )
        energies.append(density[inside].sum())
    return np.array(energies)


def band_energy_ratio_db(reference: Signal, candidate: Signal, sr: int) -> Floats:
    """Return the energy of `candidate` in each of `BANDS` in dB re `reference`: see `band_energies`.

    Half the amplitude is -6.02 dB in every band. A band that is silent in the reference alone is infinite, one silent
    in both NaN, and all are NaN if either signal is not finite.
    """
    first, second = as_pair(reference, candidate)
    below, above = band_energies(first, sr), band_energies(second, sr)
    with np.errstate(divide="ignore", invalid="ignore"):
        return 10 * np.log10(above / below)


def log_spectral_distance(reference: Signal, candidate: Signal, floor_db: float = -80.0) -> float:
    """Return the log-spectral distance of two signals in dB (Gray and Markel, 1976).

    With ``L = max(10 log10 P, floor)`` of the power spectrograms it is ``mean_t sqrt(mean_k (L_ref - L_cand)^2)``, over
    bins ``k`` first and frames ``t`` then. Twice the amplitude is 6.02 dB wherever both are above the floor.

    Parameters
    ----------
    reference, candidate : numpy.ndarray, shape (n,), float
        Samples, full scale 1.
    floor_db : float
        Floor of both spectra in dB re the largest power in the reference's own spectrogram.

    Returns
    -------
    float
        dB; NaN if the reference is silent or either signal is not finite.
    """
    first, second = (power_spectrogram(y) for y in as_pair(reference, candidate))
    gap = floored_db(first, first.max(), floor_db) - floored_db(second, first.max(), floor_db)
    return float(np.mean(np.sqrt(np.mean(gap**2, axis=0))))


def multi_resolution_stft_distance(
    reference: Signal, candidate: Signal, floor_db: float = -80.0
) -> tuple[float, float]:
    """Return the two terms of the multi-resolution STFT distance, each the mean over `RESOLUTIONS`.

    Their sum is the auxiliary loss of Parallel WaveGAN (Yamamoto, Song and Kim 2020, equations 6 to 9).

    Parameters
    ----------
    reference, candidate : numpy.ndarray, shape (n,), float
        Samples, full scale 1.
    floor_db : float
        Floor of the log magnitudes in dB re the reference's largest one, at each resolution.

    Returns
    -------
    float
        Spectral convergence: ``||S_ref - S_cand|| / ||S_ref||`` of the magnitudes, Frobenius norm; 1 for a silent
        candidate.
    float
        Log magnitude: the mean of ``|ln S_ref - ln S_cand|``, in nepers. Both are NaN if either signal is not finite.
        Against a silent reference this is NaN and the convergence infinite, or NaN too where the candidate is silent.
    """
    first, second = as_pair(reference, candidate)
    convergence, magnitude = [], []
    for n_fft, hop_length, win_length in RESOLUTIONS:
        below = power_spectrogram(first, n_fft, hop_length, win_length)
        above = power_spectrogram(second, n_fft, hop_length, win_length)
        gap = floored_db(below, below.max(), floor_db) - floored_db(above, below.max(), floor_db)
        with np.errstate(invalid="ignore", divide="ignore"):
            convergence.append(np.linalg.norm(np.sqrt(below) - np.sqrt(above)) / np.linalg.norm(np.sqrt(below)))
        magnitude.append(np.mean(np.abs(gap)) * math.log(10) / 20)
    return float(np.mean(convergence)), float(np.mean(magnitude))


def mel_cepstral_distance(reference: Signal, candidate: Signal, sr: int, floor_db: float = -80.0) -> float:
    """Return the mel-cepstral distance along the best time alignment, in dB (Kubichek, 1993).

    The mean over the path of ``10 sqrt(2) / ln 10 * ||c_ref - c_cand||``, where ``c`` holds coefficients 1 to 24
    of the cosine series of the natural log of the mel power, ``ln P = c_0 + 2 sum_m c_m cos(...)``. So
    scaled, it is the root mean square difference of the two smoothed log-mel spectra in dB, level (``c_0``) left out.
    Other tools take an orthonormal DCT of the same spectrum: their figures are ``sqrt(2 MELS)`` times larger.

    Parameters
    ----------
    reference, candidate : numpy.ndarray, shapes (n,) and (m,), float
        Samples, full scale 1. The lengths may differ: dynamic time warping aligns the frames.
    sr : int
        Sample rate in Hz.
    floor_db : float
        Floor of both mel spectra in dB re the reference's own maximum.

    Returns
    -------
    float
        dB; NaN if the reference is silent or either signal is not finite.
    """
    import librosa

    first, second = (
        mel_spectrogram(as_signal(y, name), sr, hop_length=300)
        for y, name in ((reference, "reference"), (candidate, "candidate"))
    )
    cepstra = []
    for power in (first, second):
        log_power = floored_db(power, first.max(), floor_db) * math.log(10) / 10
        # librosa's DCT is orthonormal; the cosine series above is that over sqrt(2 bands)
        mfcc = librosa.feature.mfcc(S=log_power, n_mfcc=25, dct_type=2, norm="ortho")
        cepstra.append(mfcc[1:] / math.sqrt(2 * len(power)))
    if not all(np.isfinite(cepstrum).all() for cepstrum in cepstra):
        return math.nan
    cost, path = librosa.sequence.dtw(X=cepstra[0], Y=cepstra[1], metric="euclidean")
    return float(10 * math.sqrt(2) / math.log(10) * cost[-1, -1] / len(path))


def rounding_limit(floor: float) -> float:
    """Return what a distance may be for the rounding that moves the model by `floor`, both dB: twice as much.

    Never more than half of `UNRELATED`: what spoils the floor as well must not raise its own limit.

    >>> rounding_limit(0.5), round(rounding_limit(8.0), 2)
    (1.0, 3.94)
    """
    return float(np.minimum(2 * floor, UNRELATED / 2))


def is_judged(floor: float, limit: float) -> bool:
    """Return whether rounding leaves an audio so near to itself that it can be held to a limit.

    With weights that are not trained it may not.

    Parameters
    ----------
    floor, limit : float
        What rounding alone costs, and what may be lost at most, of any measure.
    """
    return not CLEAR * floor > limit


@dataclass(frozen=True)
class SpectralAgreement:
    """How far an audio is from the model's.

    Attributes
    ----------
    distance : float
        Log-spectral distance to what is right, dB; NaN where the audio is not finite or not as long.
    floor : float
        The same of the model itself, as far as rounding moves it, dB.
    """

    distance: float
    floor: float

    @property
    def limit(self) -> float:
        """What the distance may be, dB: `TRANSPARENT`, or twice the floor within `rounding_limit`."""
        return float(np.maximum(TRANSPARENT, rounding_limit(self.floor)))


def spectral_agreement(exact: Signal, reference: Signal, candidate: Signal) -> SpectralAgreement:
    """Compare an audio with the model in float64, and the model in float32 with that too.

    Parameters
    ----------
    exact, reference, candidate : numpy.ndarray, any shape of n samples, float
        By the model in float64, by the model in float32, and by an export; full scale 1.
    """
    right, single, found = (np.asarray(one, np.float64).reshape(-1) for one in (exact, reference, candidate))
    distance = log_spectral_distance(right, found) if found.size == right.size else float("nan")
    return SpectralAgreement(distance, log_spectral_distance(right, single))
