"""When each word is spoken and heard, and which sentence a recogniser that learnt from people identifies."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from training.espeak import speak

from kokoro_nb.errors import InputError
from kokoro_nb.listening.transcript import Transcript, Word
from kokoro_nb.studies.waveform_spectrum import PACKAGE
from kokoro_nb.studies.whisper import known_sentences, timing_rows, word_times


def utterance(phonemes="ab, c.", durations=(4, 2, 2, 3, 1, 4, 4, 4)):
    return SimpleNamespace(phonemes=phonemes, tensors={"durations": torch.tensor(durations)})


def test_words_begin_and_end_where_their_phonemes_do():
    words = word_times(utterance())
    assert [word.text for word in words] == ["ab", "c"]
    # a frame is 25 ms; the pad token lasts 4 frames
    assert [(word.start, word.end) for word in words] == [pytest.approx((0.1, 0.2)), pytest.approx((0.3, 0.4))]

    # the last word needs no full stop
    (word,) = word_times(utterance("ab", (4, 2, 2, 9)))
    assert (word.start, word.end) == pytest.approx((0.1, 0.2))

    with pytest.raises(InputError, match="some symbols are not in the table"):
        word_times(utterance("abcdefgh"))


def test_the_real_model_has_a_token_for_each_symbol(narrow_case):
    words = word_times(narrow_case)
    assert len(words) == 2
    assert words[0].end <= words[1].start < words[1].end <= narrow_case.seconds


def test_times_are_compared_where_as_many_words_were_heard():
    heard = Transcript("one two", -0.1, 0.0, 1.0, (Word("one", 0.1, 0.22, 0.9), Word("two", 0.3, 0.4, 0.9)))
    rows = timing_rows(utterance(), heard)
    assert [row["word"] for row in rows] == ["one", "two"]
    assert [row["middle apart (s)"] for row in rows] == [pytest.approx(0.01), pytest.approx(0.0)]
    assert timing_rows(utterance("ab", (4, 2, 2, 9)), heard) == timing_rows(utterance(), None) == []


TEXTS = ("he sleeps often", "susan falls")


def test_an_export_that_says_another_sentence_is_seen():
    own = [speak(text, "en-us", 150).audio for text in TEXTS]
    audio = {PACKAGE: own, "swapped": [np.resize(own[1], own[0].size), np.resize(own[0], own[1].size)]}
    heard = known_sentences(TEXTS, audio | {"backwards (control)": [y[::-1] for y in own]})
    assert heard.choices == 50
    assert heard.shares == {PACKAGE: 1.0, "swapped": 0.0, "backwards (control)": 0.0}
    assert heard.understood
    rows = heard.rows()
    assert [row["version"] for row in rows] == [PACKAGE, "swapped", "backwards (control)"]
    assert rows[1]["STOI against the package (0 to 1)"] < 0.7


def test_a_text_that_the_recogniser_cannot_know_is_a_reason():
    heard = known_sentences(["zzyzx"], {PACKAGE: [np.ones(24_000, np.float32)]})
    assert heard.reason == "the recogniser has no pronunciation of zzyzx"
    assert not heard.understood
