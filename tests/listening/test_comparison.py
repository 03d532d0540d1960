import math

import numpy as np
import pytest

from kokoro_nb.errors import InputError
from kokoro_nb.listening.comparison import compare_audio, compare_f0, f0_contour, f0_difference
from tests.refusals import refused

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
    refused("12000 samples and the candidate 11000", compare_audio, voice, voice[:11_000], SR)
    with pytest.raises(InputError, match="no metric 'snr'; use one of finite fraction, "):
        silent["snr"]


def tone(frequency, seconds=1.0):
    time = np.arange(round(SR * seconds)) / SR
    return sum(np.sin(2 * np.pi * frequency * k * time) / k for k in range(1, 8)) * 0.1


@pytest.fixture(scope="module")
def low():
    times, f0 = f0_contour(tone(200), SR)
    assert np.allclose(times, np.arange(len(f0)) * 300 / SR)
    return f0


def voiced(y, **settings):
    return ~np.isnan(f0_contour(y, SR, **settings)[1])


def test_a_tone_has_its_frequency(low):
    # the grid is 10 cents wide
    assert np.abs(1200 * np.log2(low[10:-10] / 200)).max() <= 10


def test_noise_silence_and_what_is_faint_are_unvoiced():
    noise = np.random.default_rng(1).normal(0, 0.1, SR)
    assert not voiced(noise).any()
    # the control: without the gate on the probability, pYIN's path sees notes in noise
    assert voiced(noise, voicing=0.0).any()
    assert not voiced(np.zeros(SR)).any()
    faint = np.concatenate([tone(200, 0.5), 1e-4 * tone(300, 0.5)])
    assert not voiced(faint)[50:].any()
    assert voiced(faint, gate_db=-120.0)[50:].any()


def test_a_semitone_is_100_cents(low):
    _, higher = f0_contour(tone(200 * 2 ** (1 / 12)), SR)
    assert f0_difference(low, higher)[0] == pytest.approx(100, abs=10)


def test_difference_arithmetic():
    reference, candidate = np.array([[100.0, 100.0, 100.0, np.nan], [200.0, 50.0, np.nan, np.nan]])
    # an octave up and an octave down: the median of 1200 and 1200; 1 of 4 frames disagrees
    assert f0_difference(reference, candidate) == (pytest.approx(1200), 0.25, 2)
    assert math.isnan(f0_difference(reference, np.full(4, np.nan))[0])


def test_nan_is_not_unvoiced(voice):
    broken = voice.copy()
    broken[0] = np.nan
    refused(r"99\.99 % finite, and has no F0", f0_contour, broken, SR)
    assert math.isnan(compare_f0(voice, broken, SR)[1])
    refused("12000 samples and the candidate 11999", compare_f0, voice, voice[:-1], SR)
