"""All measures of one signal against another in one table."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from kokoro_nb.errors import InputError
from kokoro_nb.listening import pitch, spectrum, waveform
from kokoro_nb.listening.waveform import Signal, as_pair, percent, percent_finite
from kokoro_nb.markup import Fragment, number, table

Better = Literal["lower", "higher", "one", "zero"]
FINITE = "finite fraction"
MAX_LAG_SECONDS = 0.005
_UNDEFINED = {"correlation": "a signal is constant", "F0 deviation": "no frame is voiced in both"}
_WORDS = {"lower": "lower", "higher": "higher", "one": "close to 1", "zero": "close to 0"}


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
        ``lower``, ``higher``, ``one`` or ``zero``: where a faithful candidate lies.
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

    >>> Comparison("eager", "onnxruntime", (Metric("lag", 0.0, "samples", "zero"),))["lag"]
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
            {
                "metric": metric.name,
                "value": _shown(metric),
                "unit": metric.unit,
                "better": _WORDS[metric.better],
                "note": metric.note,
            }
            for metric in self.values
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
    measured, details = _measure(first, second, sr)
    reason = _why_undefined(first, second, names)
    rows = [Metric(FINITE, 100 * waveform.finite_fraction(second), "%", "higher", "of the candidate's samples")]
    for name, (value, unit, better) in measured.items():
        note = reason or _UNDEFINED.get(name, "") if math.isnan(value) else details.get(name, "")
        rows.append(Metric(name, value, unit, better, note))
    return Comparison(*names, tuple(rows))


def _measure(
    first: Signal, second: Signal, sr: int
) -> tuple[Mapping[str, tuple[float, str, Better]], Mapping[str, str]]:
    """Return value, unit and direction by metric, and the notes of those that are defined."""
    bands = spectrum.band_energy_ratio_db(first, second, sr)
    defined = ~np.isnan(bands)
    worst = int(np.argmax(np.where(defined, np.abs(bands), -1.0)))
    low, high = spectrum.BANDS[worst]
    stft = spectrum.multi_resolution_stft_distance(first, second)
    f0 = pitch.compare_f0(first, second, sr)
    max_lag = min(round(MAX_LAG_SECONDS * sr), len(first) - 1)
    measured: dict[str, tuple[float, str, Better]] = {
        "RMS ratio": (waveform.rms_ratio_db(first, second), "dB", "zero"),
        "SNR": (waveform.snr_db(first, second), "dB", "higher"),
        "maximum error": (waveform.max_error_of_peak(first, second), "of the reference's peak", "lower"),
        "correlation": (waveform.correlation(first, second), "", "one"),
        "lag": (waveform.lag(first, second, max_lag), "samples", "zero"),
        "largest band-energy ratio": (float(bands[worst]), "dB", "zero"),
        "log-spectral distance": (spectrum.log_spectral_distance(first, second), "dB", "lower"),
        "spectral convergence": (stft.spectral_convergence, "", "lower"),
        "log-magnitude distance": (stft.log_magnitude, "Np", "lower"),
        "multi-resolution STFT distance": (stft.total, "", "lower"),
        "mel-cepstral distance": (spectrum.mel_cepstral_distance(first, second, sr), "dB", "lower"),
        "F0 deviation": (f0.median_cents, "cents", "lower"),
        "voicing disagreement": (100 * f0.voicing_disagreement, "% of frames", "lower"),
    }
    details = {
        "lag": f"within {max_lag} samples; positive: the candidate is late",
        "largest band-energy ratio": f"{low}-{high} Hz",
        "multi-resolution STFT distance": "the sum of the two above",
        "F0 deviation": f"median over {f0.voiced_in_both} frames voiced in both",
    }
    return measured, details


def _why_undefined(first: Signal, second: Signal, names: tuple[str, str]) -> str:
    """Return why metrics of these two signals may be NaN: the most severe reason, or none."""
    signals = tuple(zip(names, (first, second), strict=True))
    broken = [f"{name} is {percent_finite(y)}" for name, y in signals if not np.isfinite(y).all()]
    silent = [f"{name} is silent" for name, y in signals if not y.any()]
    return " and ".join(broken or silent)


def _shown(metric: Metric) -> float | str | Fragment:
    """Return the figure as a table takes it; a share of finite samples below 1 is marked, and never rounded to 1."""
    if math.isinf(metric.value):
        return number(metric.value)  # no error at all, or silence: not a figure that could not be computed
    if metric.name != FINITE or not metric.value < 100:
        return metric.value
    text = percent(metric.value / 100).removesuffix(" %")
    return Fragment(f'<strong class="knb-nonfinite">{text}</strong>', text)
