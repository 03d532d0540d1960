import math

import numpy as np
import pytest

from kokoro_nb.errors import InputError
from kokoro_nb.listening import spectrum, waveform
from kokoro_nb.listening.comparison import Comparison, Metric, compare_audio

SR = 24_000


@pytest.fixture
def voice(voice):
    """Half a second: every comparison looks for F0, which takes its time."""
    return voice[6000:18_000]


@pytest.fixture
def broken(voice):
    candidate = voice.copy()
    candidate[:3000] = np.nan
    return compare_audio(voice, candidate, SR, names=("eager", "onnxruntime"))


def test_the_finite_fraction_comes_first_and_the_rest_is_nan(broken):
    first, *others = broken.values
    assert (first.name, first.value, first.unit) == ("finite fraction", 75.0, "%")
    assert others
    assert all(math.isnan(metric.value) for metric in others)
    assert all(metric.note == "onnxruntime is 75 % finite" for metric in others)


def test_identity_is_perfect_in_every_metric(voice):
    comparison = compare_audio(voice, voice, SR)
    best = {"lower": 0, "close to 0": 0, "close to 1": 1}
    for metric in comparison.values[1:]:
        assert metric.value == pytest.approx(best.get(metric.better, math.inf)), metric.name
    assert comparison["finite fraction"] == 100


def test_values_are_those_of_the_single_measures(voice):
    other = 0.5 * voice + np.random.default_rng(0).normal(0, 1e-3, len(voice))
    comparison = compare_audio(voice, other, SR)
    assert comparison["SNR"] == waveform.snr_db(voice, other)
    assert comparison["RMS ratio"] == pytest.approx(-6.02, abs=0.05)
    assert comparison["log-spectral distance"] == spectrum.log_spectral_distance(voice, other)
    assert comparison["mel-cepstral distance"] == spectrum.mel_cepstral_distance(voice, other, SR)
    bands = spectrum.band_energy_ratio_db(voice, other, SR)
    assert comparison["largest band-energy ratio"] == max(bands, key=abs)
    assert comparison["F0 deviation"] <= 10


def test_every_nan_has_a_note_and_lengths_are_not_cropped(voice):
    noise = np.random.default_rng(0).normal(0, 0.1, len(voice))
    zero = np.zeros_like(voice)
    silent = compare_audio(voice, zero, SR, names=("eager", "mine"))
    notes = {metric.name: metric.note for metric in silent.values if math.isnan(metric.value)}
    assert notes == dict.fromkeys(("correlation", "lag", "F0 deviation"), "mine is silent")
    assert silent["RMS ratio"] == -math.inf
    pairs = ((voice, noise), (voice, np.full_like(voice, 0.1)), (zero, voice), (zero, zero))
    nans = [m for pair in pairs for m in compare_audio(*pair, SR).values if math.isnan(m.value)]
    assert len(nans) > 6
    assert all(metric.note for metric in nans)
    with pytest.raises(InputError, match="12000 samples and the candidate 11000"):
        compare_audio(voice, voice[:11_000], SR)
    voice[3] = np.inf
    assert ">99.99<" in compare_audio(voice, voice, SR)._repr_html_()


def test_look_up():
    comparison = Comparison(
        "a", "b", (Metric("SNR", 12.0, "dB", "higher"), Metric("lag", 0.0, "samples", "close to 0"))
    )
    assert comparison.as_dict() == {"SNR": 12.0, "lag": 0.0}
    assert comparison["SNR"] == 12
    with pytest.raises(InputError, match="no metric 'snr'; use one of SNR, lag"):
        comparison["snr"]


def test_the_table_is_escaped_and_marks_what_is_broken(broken):
    page = broken._repr_html_()
    assert page.count('<strong class="knb-nonfinite">') == len(broken.values)
    assert '<strong class="knb-nonfinite">75</strong>' in page
    assert '<strong class="knb-nonfinite">NaN</strong>' in page
    wild = Comparison("<script>", "b&c", (Metric("<b>", 1.0, "<i>", "close to 1", '"x"'),))
    page = wild._repr_html_()
    assert "<script>" not in page
    assert "<b>" not in page
    assert "<caption>b&amp;c against &lt;script&gt;</caption>" in page
    row = '<td class="knb-number">1</td><td>&lt;i&gt;</td><td>close to 1</td><td>&quot;x&quot;</td>'
    assert f"<td>&lt;b&gt;</td>{row}" in page
