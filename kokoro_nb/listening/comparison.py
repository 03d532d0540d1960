"""All measures of one signal against another in one table, and the fundamental frequency by which they differ."""

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from kokoro_nb.errors import InputError
from kokoro_nb.listening import spectrum, waveform
from kokoro_nb.listening.waveform import Floats, Signal, as_pair, as_signal, percent, percent_finite, why_undefined
from kokoro_nb.markup import Fragment, number, table

Better = Literal["lower", "higher", "close to 1", "close to 0"]
FINITE = "finite fraction"
MAX_LAG_SECONDS = 0.005
RANGE = (50.0, 600.0)  # Hz
FRAME, HOP = 2048, 300  # samples
_UNDEFINED = {"correlation": "a signal is constant", "F0 deviation": "no frame is voiced in both"}


@dataclass(frozen=True)
class Metric:
    """One measured figure.

    Attributes
    ----------
    name : str
        What was measured.
    value : float
        The figure in `unit`; NaN if it could not be computed, and then `note` says why.
    unit : str
        Unit, ``""`` for a ratio.
    better : str
        ``lower``, ``higher``, ``close to 1`` or ``close to 0``: where a faithful candidate lies.
    note : str
        What else the reader has to know.
    """

    name: str
    value: float
    unit: str
    better: Better
    note: str = ""


@dataclass(frozen=True)
class Comparison:
    """The metrics of one candidate against one reference.

    Indexing by the name of a metric gives its value; a notebook shows the whole as a table.

    >>> Comparison("eager", "onnxruntime", (Metric("lag", 0.0, "samples", "close to 0"),))["lag"]
    0.0
    """

    reference: str
    candidate: str
    values: tuple[Metric, ...]

    def __getitem__(self, name: str) -> float:
        """Return the value of the metric `name`.

        Raises
        ------
        InputError
            If there is no such metric.
        """
        values = self.as_dict()
        if name not in values:
            raise InputError(f"There is no metric '{name}'; use one of {', '.join(values)}.")
        return values[name]

    def as_dict(self) -> dict[str, float]:
        """Return the values by the names of their metrics, in order."""
        return {metric.name: metric.value for metric in self.values}

    def _repr_html_(self) -> str:
        rows = [
            {"metric": one.name, "value": _shown(one), "unit": one.unit, "better": one.better, "note": one.note}
            for one in self.values
        ]
        return table(rows, f"{self.candidate} against {self.reference}")._repr_html_()


def compare_audio(
    reference: Signal, candidate: Signal, sr: int, names: tuple[str, str] = ("reference", "candidate")
) -> Comparison:
    """Measure `candidate` against `reference` in every way of this package.

    Parameters
    ----------
    reference, candidate : numpy.ndarray, shape (n,), float
        Samples, full scale 1, of one length: nothing is cropped here.
    sr : int
        Sample rate in Hz; the band edges reach up to 12 kHz, so at least 24000.
    names : (str, str)
        What the table calls them.

    Returns
    -------
    Comparison
        The finite fraction of the candidate comes first. If either signal is not finite, every other metric is NaN, and
        its note says so.

    Raises
    ------
    InputError
        If either is no signal, or their lengths differ.
    """
    first, second = as_pair(reference, candidate)
    reason = why_undefined(first, second, names)
    rows = [Metric(FINITE, 100 * waveform.finite_fraction(second), "%", "higher", "of the candidate's samples")]
    for metric in _measured(first, second, sr):
        note = reason or _UNDEFINED.get(metric.name, "") if math.isnan(metric.value) else metric.note
        rows.append(replace(metric, note=note))
    return Comparison(*names, tuple(rows))


def _measured(first: Signal, second: Signal, sr: int) -> tuple[Metric, ...]:
    """Return every metric but the finite fraction, with the note that holds where it is defined."""
    bands = spectrum.band_energy_ratio_db(first, second, sr)
    worst = int(np.argmax(np.where(np.isnan(bands), -1.0, np.abs(bands))))
    low, high = spectrum.BANDS[worst]
    convergence, magnitude = spectrum.multi_resolution_stft_distance(first, second)
    cents, disagreement, both = compare_f0(first, second, sr)
    max_lag = min(round(MAX_LAG_SECONDS * sr), len(first) - 1)
    late, cepstral = waveform.lag(first, second, max_lag), spectrum.mel_cepstral_distance(first, second, sr)
    return (
        Metric("RMS ratio", waveform.rms_ratio_db(first, second), "dB", "close to 0"),
        Metric("SNR", waveform.snr_db(first, second), "dB", "higher"),
        Metric("maximum error", waveform.max_error_of_peak(first, second), "of the reference's peak", "lower"),
        Metric("correlation", waveform.correlation(first, second), "", "close to 1"),
        Metric("lag", late, "samples", "close to 0", f"within {max_lag} samples; positive: the candidate is late"),
        Metric("largest band-energy ratio", float(bands[worst]), "dB", "close to 0", f"{low}-{high} Hz"),
        Metric("log-spectral distance", spectrum.log_spectral_distance(first, second), "dB", "lower"),
        Metric("spectral convergence", convergence, "", "lower"),
        Metric("log-magnitude distance", magnitude, "Np", "lower"),
        Metric("multi-resolution STFT distance", convergence + magnitude, "", "lower", "the sum of the two above"),
        Metric("mel-cepstral distance", cepstral, "dB", "lower"),
        Metric("F0 deviation", cents, "cents", "lower", f"median over {both} frames voiced in both"),
        Metric("voicing disagreement", 100 * disagreement, "% of frames", "lower"),
    )


def _shown(metric: Metric) -> float | str | Fragment:
    """Return the figure as a table takes it; a share of finite samples below 1 is marked, and never rounded to 1."""
    if math.isinf(metric.value):
        return number(metric.value)  # no error at all, or silence: not a figure that could not be computed
    if metric.name != FINITE or not metric.value < 100:
        return metric.value
    text = percent(metric.value / 100).removesuffix(" %")
    return Fragment(f'<strong class="knb-nonfinite">{text}</strong>', text)


def f0_contour(y: Signal, sr: int, voicing: float = 0.05, gate_db: float = -50.0) -> tuple[Floats, Floats]:
    """Return the fundamental frequency of `y`, within `RANGE`, by probabilistic YIN (Mauch and Dixon, 2014).

    A frame is voiced where pYIN's path says so, and its probability of voicing reaches `voicing`, and its RMS comes
    within `gate_db` of the loudest frame's. The second gate drops the low notes that pYIN's path sees in noise: there
    the probability stays at 0.01, and it is 0.2 to 0.9 in vowels. Frequencies lie on pYIN's grid of 10 cents.

    Parameters
    ----------
    y : numpy.ndarray, shape (n,), float
        Samples, full scale 1.
    sr : int
        Sample rate in Hz.
    voicing : float
        Smallest probability of voicing, 0 to 1.
    gate_db : float
        Smallest RMS of a frame in dB re the loudest frame.

    Returns
    -------
    numpy.ndarray, shape (1 + n // 300,), float64
        Centre of each frame in seconds; frame ``t`` is centred at sample ``300 * t``.
    numpy.ndarray, shape (1 + n // 300,), float64
        Hz; NaN where the frame is unvoiced, and only there.

    Raises
    ------
    InputError
        If `y` is not finite: an unvoiced frame would look the same.
    """
    import librosa

    samples = as_signal(y)
    if not np.isfinite(samples).all():
        raise InputError(f"The signal is {percent_finite(samples)}, and has no F0 to be found; look at its NaN first.")
    low, high = RANGE
    f0, flag, probability = librosa.pyin(samples, fmin=low, fmax=high, sr=sr, frame_length=FRAME, hop_length=HOP)
    level = librosa.feature.rms(y=samples, frame_length=FRAME, hop_length=HOP)[0]
    voiced = flag & (probability >= voicing) & (level >= level.max() * 10 ** (gate_db / 20))
    return librosa.times_like(f0, sr=sr, hop_length=HOP), np.where(voiced, f0, np.nan)


def f0_difference(reference: Floats, candidate: Floats) -> tuple[float, float, int]:
    """Compare the frequencies of two contours of the same frames, frame by frame.

    Parameters
    ----------
    reference, candidate : numpy.ndarray, shape (frames,), float64
        Hz; NaN where the frame is unvoiced.

    Returns
    -------
    float
        Median of ``|1200 log2(candidate / reference)|`` over the frames that are voiced in both, in cents.
    float
        Fraction of frames that are voiced in one and not in the other.
    int
        Number of frames behind the median; with none of them it is NaN.
    """
    both = np.isfinite(reference) & np.isfinite(candidate)
    cents = np.abs(1200 * np.log2(candidate[both] / reference[both]))
    disagreement = float(np.mean(np.isnan(reference) != np.isnan(candidate)))
    return float(np.median(cents)) if both.any() else math.nan, disagreement, int(both.sum())


def compare_f0(reference: Signal, candidate: Signal, sr: int) -> tuple[float, float, int]:
    """Compare the contours of two signals of shape (n,) at `sr` Hz as `f0_difference` does; NaN if one is not finite.

    Raises
    ------
    InputError
        If either is no signal, or their lengths differ.
    """
    first, second = as_pair(reference, candidate)
    if not (np.isfinite(first).all() and np.isfinite(second).all()):
        return math.nan, math.nan, 0
    return f0_difference(f0_contour(first, sr)[1], f0_contour(second, sr)[1])
