from dataclasses import replace

import numpy as np
import pytest
from training.sentences import VOCABULARY, is_held_out

from kokoro_nb.errors import InputError
from kokoro_nb.listening.transcript import Transcript, believed, heard_in, phrase_error_rate, phrases, spoken_texts

SURE = Transcript("Two cats!", -0.1, 0.0, 0.9)


def test_the_list_is_distinct_held_out_and_of_the_vocabulary():
    known = phrases(50)
    assert len(set(known)) == 50
    assert all(is_held_out(text) for text in known)
    assert {word for text in known for word in text.split()} <= set(VOCABULARY)
    for count in (0, -1, 51):
        with pytest.raises(InputError, match="request 1 to 50"):
            phrases(count)


def test_what_is_spoken_is_ones_own_text_or_a_list():
    assert spoken_texts("My own.", 3) == ("My own.",)
    assert spoken_texts("", 3) == phrases(3)
    notes = spoken_texts("notes", 3)
    assert notes[:2] == ("Hello world.", "Hello, this is a test of the text to speech system.")
    assert any(any(letter.isdigit() for letter in text) for text in notes)
    assert 120 < sum(len(text.split()) for text in notes) < 200  # a minute or so


def test_errors_are_counted_over_all_words_and_a_doubted_transcript_is_nothing_heard():
    doubted = replace(SURE, avg_logprob=-3.0)
    assert believed(SURE) == "2 cats"
    assert believed(doubted) == believed(None) == ""
    assert phrase_error_rate(["two cats", "a dog sings slowly"], [SURE, None]) == pytest.approx(4 / 6)
    assert phrase_error_rate(["two cats"], [doubted]) == 1.0


def test_what_is_not_finite_is_not_listened_to(monkeypatch):
    monkeypatch.setattr("kokoro_nb.listening.transcript.transcribe", lambda model, y, sr, words: SURE)
    assert heard_in(None, [np.zeros(4), np.array([0.0, np.nan])], 24_000) == [SURE, None]
