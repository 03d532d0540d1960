import math

import numpy as np
import pytest

from kokoro_nb.errors import InputError
from kokoro_nb.listening.comparison import compare_audio

SR = 24_000


@pytest.fixture
def voice(voice):
    """Half a second: every comparison looks for F0, which takes its time."""
    return voice[6000:18_000]


def test_the_finite_fraction_comes_first_and_the_rest_is_nan(voice):
    candidate = voice.copy()
    candidate[:3000] = np.nan
    broken = compare_audio(voice, candidate, SR, names=("eager", "onnxruntime"))
    first, *others = broken.values
    assert (first.name, first.value, first.unit) == ("finite fraction", 75.0, "%")
    assert others
    assert all(math.isnan(metric.value) for metric in others)
    assert all(metric.note == "onnxruntime is 75 % finite" for metric in others)
    assert broken._repr_html_().count('<strong class="knb-nonfinite">') == len(broken.values)


def test_identity_is_perfect_in_every_metric(voice):
    comparison = compare_audio(voice, voice, SR)
    best = {"lower": 0, "close to 0": 0, "close to 1": 1}
    for metric in comparison.values[1:]:
        assert metric.value == pytest.approx(best.get(metric.better, math.inf)), metric.name
    assert comparison["finite fraction"] == 100
    half = compare_audio(voice, 0.5 * voice, SR)
    assert (half["SNR"], half["RMS ratio"]) == (pytest.approx(6.02, abs=0.01), pytest.approx(-6.02, abs=0.01))
    assert half["F0 deviation"] <= 10


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
    with pytest.raises(InputError, match="no metric 'snr'; use one of finite fraction, "):
        silent["snr"]
