"""Sounds that the tests of the figures draw."""

import numpy as np
import pytest

SR = 24_000


@pytest.fixture
def voice():
    """Return half a second of a 150 Hz tone with overtones."""
    time = np.arange(12_000) / SR
    return sum(np.sin(2 * np.pi * 150 * k * time) / k for k in range(1, 20)) * 0.2 * np.hanning(12_000)


@pytest.fixture
def broken(voice):
    """Return it with a quarter of it NaN."""
    candidate = voice.copy()
    candidate[3000:6000] = np.nan
    return candidate
