"""A voice."""

import numpy as np
import pytest


@pytest.fixture
def voice():
    """One second at 24 kHz: 0.75 s of a vowel-like sound gliding about 150 Hz, then weak noise."""
    time = np.arange(18_000) / 24_000
    phase = 2 * np.pi * np.cumsum(150 + 30 * np.sin(2 * np.pi * time)) / 24_000
    vowel = sum(np.sin(k * phase) / k for k in range(1, 20)) * 0.2
    return np.concatenate([vowel, np.random.default_rng(0).normal(0, 0.003, 6000)])
