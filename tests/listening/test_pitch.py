import math

import numpy as np
import pytest

from kokoro_nb.errors import InputError
from kokoro_nb.listening.comparison import F0Contour, compare_f0, f0_contour, f0_difference

SR = 24_000


def tone(frequency, seconds=1.0):
    time = np.arange(round(SR * seconds)) / SR
    return sum(np.sin(2 * np.pi * frequency * k * time) / k for k in range(1, 8)) * 0.1


@pytest.fixture(scope="module")
def low():
    return f0_contour(tone(200), SR)


def test_a_tone_has_its_frequency(low):
    assert low.voiced[10:-10].all()
    # the grid is 10 cents wide
    assert np.abs(1200 * np.log2(low.f0[10:-10] / 200)).max() <= 10


def test_noise_silence_and_what_is_faint_are_unvoiced():
    noise = np.random.default_rng(1).normal(0, 0.1, SR)
    assert not f0_contour(noise, SR).voiced.any()
    # the control: without the gate on the probability, pYIN's path sees notes in noise
    assert f0_contour(noise, SR, voicing=0.0).voiced.any()
    assert not f0_contour(np.zeros(SR), SR).voiced.any()
    faint = np.concatenate([tone(200, 0.5), 1e-4 * tone(300, 0.5)])
    assert not f0_contour(faint, SR).voiced[50:].any()
    assert f0_contour(faint, SR, gate_db=-120.0).voiced[50:].any()


def test_a_semitone_is_100_cents(low):
    higher = f0_contour(tone(200 * 2 ** (1 / 12)), SR)
    difference = f0_difference(low, higher)
    assert difference.median_cents == pytest.approx(100, abs=10)


def test_difference_arithmetic():
    times = np.arange(4) / 80
    reference = F0Contour(times, np.array([100.0, 100.0, 100.0, np.nan]))
    candidate = F0Contour(times, np.array([200.0, 50.0, np.nan, np.nan]))
    difference = f0_difference(reference, candidate)
    # an octave up and an octave down: the median of 1200 and 1200; 1 of 4 frames disagrees
    assert difference.median_cents == pytest.approx(1200)
    assert difference.voicing_disagreement == 0.25
    assert difference.voiced_in_both == 2
    nothing = F0Contour(times, np.full(4, np.nan))
    assert math.isnan(f0_difference(reference, nothing).median_cents)


def test_nan_is_not_unvoiced(voice):
    broken = voice.copy()
    broken[0] = np.nan
    with pytest.raises(InputError, match=r"99\.99 % finite, and has no F0"):
        f0_contour(broken, SR)
    assert math.isnan(compare_f0(voice, broken, SR).voicing_disagreement)
    with pytest.raises(InputError, match="24000 samples and the candidate 23999"):
        compare_f0(voice, voice[:-1], SR)
