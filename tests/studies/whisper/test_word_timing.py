from types import SimpleNamespace

import pytest
import torch

from kokoro_nb.errors import InputError
from kokoro_nb.listening.transcript import Transcript, Word
from kokoro_nb.studies.whisper.transcripts import timing_rows, word_times


def utterance(phonemes="ab, c.", durations=(4, 2, 2, 3, 1, 4, 4, 4)):
    return SimpleNamespace(phonemes=phonemes, tensors={"durations": torch.tensor(durations)})


def test_words_begin_and_end_where_their_phonemes_do():
    words = word_times(utterance())
    assert [word.phonemes for word in words] == ["ab", "c"]
    # a frame is 25 ms; the pad token lasts 4 frames
    assert [(word.begin, word.end) for word in words] == [pytest.approx((0.1, 0.2)), pytest.approx((0.3, 0.4))]


def test_the_last_word_needs_no_full_stop():
    (word,) = word_times(utterance("ab", (4, 2, 2, 9)))
    assert (word.begin, word.end) == pytest.approx((0.1, 0.2))


def test_symbols_without_a_token_are_refused():
    with pytest.raises(InputError, match="some symbols are not in the table"):
        word_times(utterance("abcdefgh"))


def test_the_real_model_has_a_token_for_each_symbol(narrow_case):
    words = word_times(narrow_case)
    assert len(words) == 2
    assert words[0].end <= words[1].begin < words[1].end <= narrow_case.seconds


def test_times_are_compared_where_as_many_words_were_heard():
    heard = Transcript("one two", -0.1, 0.0, 1.0, (Word("one", 0.1, 0.22, 0.9), Word("two", 0.3, 0.4, 0.9)))
    rows = timing_rows(utterance(), heard)
    assert [row["word"] for row in rows] == ["one", "two"]
    assert [row["middle apart (s)"] for row in rows] == [pytest.approx(0.01), pytest.approx(0.0)]
    assert timing_rows(utterance("ab", (4, 2, 2, 9)), heard) == timing_rows(utterance(), None) == []
