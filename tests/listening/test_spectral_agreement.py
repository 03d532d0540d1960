"""The spectrum of an audio beside the floor: what is wrong has to leave the limit, however its waveform looks."""

import numpy as np
import pytest

from kokoro_nb.listening.spectrum import TRANSPARENT, UNRELATED, SpectralAgreement, spectral_agreement

RATE = 24000
TIME = np.arange(RATE) / RATE
VOICE = sum(np.sin(2 * np.pi * 150 * k * TIME) / k for k in range(1, 20))
NOISE = np.random.default_rng(0).standard_normal(RATE)
RIGHT = 0.2 * VOICE + 0.02 * NOISE


def agreement(candidate):
    return spectral_agreement(RIGHT, (RIGHT + 1e-6 * NOISE).reshape(1, -1), candidate)


@pytest.mark.parametrize(
    "wrong",
    [0.7 * RIGHT, RIGHT + 0.1 * NOISE, 0.2 * VOICE, np.full(RATE, np.nan), RIGHT[:-600], np.zeros(RATE), RIGHT**3],
    ids=["level", "hiss", "no noise", "NaN", "a frame short", "silence", "distorted"],
)
def test_what_is_wrong_is_beyond_the_limit(wrong):
    found = agreement(wrong)
    assert not found.distance <= found.limit


def test_rounding_agrees_two_draws_of_noise_are_unrelated_and_the_limit_is_twice_the_floor():
    assert agreement(RIGHT + 1e-6 * np.roll(NOISE, 1)).distance < 0.1
    assert agreement(-RIGHT).distance == 0, "a turn of the whole waveform agrees"
    first, second = np.random.default_rng(1).standard_normal((2, 2 * RATE))
    assert spectral_agreement(first, first, second).distance == pytest.approx(UNRELATED, abs=0.1)
    assert [SpectralAgreement(0.0, floor).limit for floor in (0.3, 1.5, 9.0)] == [TRANSPARENT, 3.0, UNRELATED / 2]
    assert np.isnan(SpectralAgreement(0.0, float("nan")).limit)
