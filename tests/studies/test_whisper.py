"""When each word is spoken and heard, which sentence a recogniser identifies, and which faults are noticed."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from training.espeak import speak

from kokoro_nb.listening.comparison import FINITE, compare_audio
from kokoro_nb.listening.transcript import Transcript, Word
from kokoro_nb.models.architecture import SAMPLE_RATE
from kokoro_nb.models.case import decode
from kokoro_nb.studies.waveform_spectrum import PACKAGE
from kokoro_nb.studies.whisper import FAULTS, LOST, MEASURES, known_sentences, noticed_by, timing_rows, word_times
from tests.refusals import refused


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

    refused("some symbols are not in the table", word_times, utterance("abcdefgh"))


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


def values(snr=60.0, off=0.1, finite=100.0):
    return dict.fromkeys(MEASURES, off) | {"SNR": snr, FINITE: finite}


HEALTHY = [values(), values(snr=50.0, off=-0.2)]


def test_a_fault_is_noticed_beyond_what_healthy_versions_have_in_every_utterance():
    assert noticed_by(HEALTHY, [values(snr=45.0, off=0.39)]) == (), "as near as healthy ones"
    assert noticed_by(HEALTHY, [values(off=-0.41)]) == tuple(name for name in MEASURES if name != "SNR")
    assert noticed_by(HEALTHY, [values(snr=43.0)]) == ("SNR",), "in its own direction"
    assert noticed_by(HEALTHY, [values(off=9.0, snr=0.0), values()]) == ()
    nothing = math.nan
    assert noticed_by(HEALTHY, [values(off=nothing, snr=nothing, finite=99.9)]) == (FINITE,)
    assert noticed_by(HEALTHY, [values(off=nothing, snr=nothing)]) == ()


def test_the_measures_are_those_of_the_comparison():
    reference = np.sin(np.arange(24_000) / 20) + 0.1 * np.random.default_rng(0).standard_normal(24_000)
    spoilt = np.where(np.arange(24_000) == 3, np.nan, reference)
    healthy, found = (compare_audio(reference, one, 24_000).as_dict() for one in (reference, spoilt))
    assert set(MEASURES) < set(healthy)
    assert noticed_by([healthy], [found]) == (FINITE,)


@pytest.fixture(scope="module")
def plain(narrow, narrow_case):
    return decode(narrow.model, narrow_case)


@pytest.fixture(scope="module")
def faulty(narrow, narrow_case):
    return {name: make(narrow.model, narrow_case) for name, make in FAULTS.items()}


@pytest.mark.parametrize("name", [*FAULTS])
def test_every_fault_changes_the_audio_and_keeps_its_length(faulty, plain, name):
    assert faulty[name].shape == plain.shape
    assert faulty[name].dtype == np.float32
    assert not np.allclose(faulty[name], plain, atol=1e-3 * np.abs(plain).max())


def test_the_model_is_left_as_it_was(faulty, narrow, narrow_case, plain):
    assert np.abs(decode(narrow.model, narrow_case) - plain).max() <= 1e-6 * np.abs(plain).max()


def test_faults_are_what_they_are_called(faulty, plain):
    assert np.array_equal(faulty["half amplitude"], 0.5 * plain)
    assert np.mean(np.abs(faulty["clipped WAV"]) == 1) > 0.01
    assert np.max(np.abs(faulty["clipped WAV"])) == 1
    lost = faulty["lost chunk"] == 0
    assert lost.sum() - (plain == 0).sum() == pytest.approx(LOST * SAMPLE_RATE, abs=2)
    assert np.array_equal(faulty["lost chunk"][~lost], plain[~lost])
    rounded = faulty["float16 throughout"]
    assert not np.isfinite(rounded).all() or np.abs(rounded - plain).max() > 0.01 * np.abs(plain).max()
