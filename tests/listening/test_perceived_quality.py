"""The judges of quality: the reference is best, a shift and a level are no fault, and NaN is nothing."""

import numpy as np
import pytest
from training.espeak import speak

from kokoro_nb.listening.judges import perceived_quality

SR = 24_000


@pytest.fixture(scope="module")
def y():
    return speak("Could we pull a clock?", "en-us", 150).audio.astype(float)


def test_the_reference_is_the_best(y):
    found = perceived_quality(y, y, SR)
    assert found.pesq == pytest.approx(4.644, abs=1e-3)  # the largest value of P.862.2's mapping
    assert found.stoi == pytest.approx(1, abs=1e-6)
    assert found.late == 0
    assert perceived_quality(y[:4800], y[:4800], SR).reason == "it is shorter than 0.5 s"


def test_a_shift_and_a_level_are_no_fault(y):
    late = np.r_[np.zeros(100), y[:-100]]
    found = perceived_quality(y, 0.5 * late, SR)
    assert found.late == 100
    assert found.pesq > 4.5
    assert found.stoi > 0.999


def test_what_cannot_be_judged_says_why(y):
    broken = np.where(np.arange(y.size) == 7, np.nan, y)
    for other, why in ((broken, "the candidate is 99.99 % finite"), (0 * y, "the candidate is silent")):
        found = perceived_quality(y, other, SR)
        assert np.isnan([found.pesq, found.stoi]).all()
        assert found.as_dict()["why not"] == why
