"""What 18 says of the sentences and rhymes that are identified."""

from dataclasses import replace

import pytest

from kokoro_nb.studies.voice.identification import Identification, _judged
from kokoro_nb.training.espeak import speak

TEXTS = ("he sleeps often", "susan falls", "why did mary jump slowly")


def test_a_voice_that_says_the_wrong_sentence_loses():
    said = {text: speak(text, "en-us", 150).audio for text in TEXTS[:2]}
    first, second = (said[text] for text in TEXTS[:2])
    wrong = [(TEXTS, TEXTS[0], first, second), (TEXTS, TEXTS[1], second, first)]
    found = _judged("sentences", wrong, 0)
    assert (found.trials, found.espeak, found.model) == (2, 1.0, 0.0)
    assert found.chance == pytest.approx(1 / 3)


def test_the_limits_are_those_of_so_many_trials():
    one = Identification("rhymes", 24, 1 / 6, 0.75, 0.7, 0.0, 0.2)
    # 19 of 26: sqrt(2 * 0.7308 * 0.2692 / 24) = 0.128; sqrt(1/6 * 5/6 / 24) = 0.0761
    assert one.spread == pytest.approx(0.256, abs=1e-3)
    assert replace(one, espeak=1.0).spread == pytest.approx(2 * 0.0555, abs=1e-3)  # 25 of 26
    assert one.by_chance == pytest.approx(1 / 6 + 2 * 0.0761, abs=1e-3)
    assert one.as_dict()["espeak (%)"] == 75
