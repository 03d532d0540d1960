"""What the bundled ear hears of espeak's speech, what of it is believed, and errors counted over words."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from training.espeak import speak
from training.sentences import VOCABULARY, is_held_out

from kokoro_nb.listening.recogniser import BUNDLED, load_whisper
from kokoro_nb.listening.transcript import (
    Transcript,
    believed,
    doubts,
    is_speech,
    phrase_error_rate,
    phrases,
    spoken_texts,
    transcribe,
)
from tests.refusals import refused

SURE = Transcript("Two cats!", -0.1, 0.0, 0.9)
SAID = "could we pull a clock"


@pytest.fixture(scope="module")
def ear():
    return load_whisper("mini")


@pytest.fixture
def noise():
    return np.random.default_rng(0).normal(0, 0.1, 24_000)


def test_words_come_through_with_their_times_and_threads_stay_as_they_are(ear):
    y = speak(SAID, "en-us", 150).audio
    torch.set_num_threads(3)
    heard = transcribe(ear, y, 24_000, words=True)
    assert torch.get_num_threads() == 3, "numba, which times the words, sets them when it begins"
    torch.set_num_threads(1)
    assert heard.text == SAID
    assert is_speech(heard)
    assert phrase_error_rate(["Could we pull a clock?"], [heard]) == 0
    assert [word.text for word in heard.words] == SAID.split()
    assert all(0 <= word.start <= word.end <= y.size / 24_000 for word in heard.words)


def test_silence_is_not_shown_to_the_model_and_nan_is_refused(ear, noise):
    heard = transcribe(ear, np.zeros(24_000), 24_000)
    assert doubts(heard) == ("no words were heard",)
    noise[0] = np.nan
    refused(r"99\.99 % finite and cannot be transcribed", transcribe, ear, noise, 24_000)


def test_random_weights_are_not_believed(noise, tmp_path):
    content = torch.load(BUNDLED["mini"], weights_only=True)
    torch.manual_seed(0)
    for tensor in content["model_state_dict"].values():
        tensor.normal_(std=0.02)
    torch.save(content, tmp_path / "random.pt")
    heard = transcribe(load_whisper(tmp_path / "random.pt"), noise, 24_000)
    assert heard.text
    assert not is_speech(heard)


@pytest.mark.parametrize(
    ("figures", "reason"),
    [
        *(((-0.2, 0.61, 1.0), "no speech"), ((-1.01, 0.1, 1.0), "log probability"), ((-0.2, 0.1, 2.41), "compression")),
        ((math.nan, 0.1, 1.0), "log probability"),
    ],
)
def test_each_doubt_is_enough(figures, reason):
    assert is_speech(Transcript("hello", -1.0, 0.6, 2.4))
    (doubt,) = doubts(Transcript("hello", *figures))
    assert reason in doubt


def test_error_rates():
    # 1 substitution and 1 insertion over 4 words
    for spoken, heard, rate in (
        ("the cat sat down", "the hat sat down there", 0.5),
        ("the cat", "", 1),
        ("It's twenty five dollars.", "it is $25", 0),
    ):
        assert phrase_error_rate([spoken], [replace(SURE, text=heard)]) == rate
    assert believed(SURE) == "2 cats"
    assert believed(replace(SURE, avg_logprob=-3.0)) == believed(None) == ""
    assert phrase_error_rate(["two cats", "a dog sings slowly"], [SURE, None]) == pytest.approx(4 / 6)


def test_the_phrases_are_distinct_held_out_and_of_the_vocabulary():
    known = phrases(50)
    assert len(set(known)) == 50
    assert all(is_held_out(text) for text in known)
    assert {word for text in known for word in text.split()} <= set(VOCABULARY)
    refused("request 1 to 50", phrases, 51)
    assert spoken_texts("My own.", 3) == ("My own.",)
    assert spoken_texts("", 3) == phrases(3)
    assert spoken_texts("notes", 3)[0] == "Hello world."
