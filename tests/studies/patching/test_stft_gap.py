import numpy as np
import pytest

from kokoro_nb.studies.patching.stft_gap import stft_gap


@pytest.fixture(scope="module")
def signal():
    return np.random.default_rng(0).standard_normal(4000).astype(np.float32)


def test_the_exact_patch_agrees_with_torch(signal):
    gap = stft_gap(signal, exact=True)
    assert gap.magnitude.of_peak < 1e-6
    assert gap.magnitude_edges.of_peak < 1e-6
    assert gap.inverse.of_peak < 1e-5
    assert gap.inverse_rms_ratio == pytest.approx(1, abs=1e-6)


def test_the_package_alone_does_not(signal):
    gap = stft_gap(signal)
    assert gap.magnitude.of_peak < 1e-6  # the inner frames are right
    assert gap.magnitude_edges.of_peak > 0.01
    assert gap.inverse.of_peak > 0.05


def test_level_of_the_plain_inverse():
    # inner bins are counted once in place of twice (1/2), and Hann squared at a quarter hop adds up to 3/2: 3/4
    tone = np.sin(2 * np.pi * 5 / 20 * np.arange(4000)).astype(np.float32)  # bin 5 of 20, neither first nor last
    assert stft_gap(tone).inverse_rms_ratio == pytest.approx(0.75, rel=0.01)
