"""The judges: espeak's speech is identified, and what is no speech is not.

The reference is best, a shift and a level are no fault, and NaN is nothing.
"""

import numpy as np
import pytest
from training.espeak import speak

from kokoro_nb.listening import judges
from kokoro_nb.listening.judges import identified, perceived_quality, unknown_words
from tests.refusals import refused

CHOICES = ("Susan falls.", "Why did mary jump slowly?", "Could we pull a clock?", "The old dog is happy.")
SR = 24_000


@pytest.fixture(scope="module")
def said():
    return [speak(text, "en-us", 150).audio for text in CHOICES]


def test_each_sentence_is_known_and_the_controls_are_not(said):
    assert [identified(CHOICES, y, SR) for y in said] == list(CHOICES)
    assert [identified(CHOICES, y[::-1], SR) for y in said] != list(CHOICES)
    loud = [y + np.random.default_rng(1).normal(0, 10 * np.std(y), y.size) for y in said]
    assert sum(identified(CHOICES, y, SR) == text for y, text in zip(loud, CHOICES, strict=True)) <= 2


def test_neither_level_nor_order_nor_rate_decides(said):
    first = [identified(CHOICES, y, SR) for y in said]
    assert [identified(CHOICES, 1e-3 * y, SR) for y in reversed(said)] == first[::-1]
    assert identified(CHOICES, said[1][::3], 8_000) == CHOICES[1]


def test_digital_silence_is_no_obstacle_because_of_the_noise(said, monkeypatch):
    around = [np.pad(y, SR // 2) for y in said]
    assert [identified(CHOICES, y, SR) for y in around] == list(CHOICES)
    monkeypatch.setattr(judges, "NOISE_DB", -np.inf)
    assert [identified(CHOICES, y, SR) for y in around] != list(CHOICES)


def test_what_cannot_be_said_or_heard():
    for nothing in (np.zeros(SR), np.full(SR, np.nan)):
        assert identified(CHOICES, nothing, SR) is None
    assert unknown_words(["Sud and same.", "cud"]) == ("sud", "cud")
    refused("two different sentences", identified, ["A.", "a"], np.ones(SR), SR)
    refused("no pronunciation of zzyzx", identified, ["zzyzx", "a"], np.ones(SR), SR)


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
