from dataclasses import replace

import numpy as np
import pytest

from kokoro_nb.backends import BACKENDS
from kokoro_nb.errors import InputError
from kokoro_nb.listening.phrases import believed, heard_in, phrase_error_rate, phrases, speak_all
from kokoro_nb.listening.transcript import Transcript
from kokoro_nb.models.case import capture
from kokoro_nb.models.patches import EXPORT_PATCHES
from kokoro_nb.studies.patching.patch_effects import decode
from kokoro_nb.training.sentences import VOCABULARY, is_held_out

SURE = Transcript("Two cats!", -0.1, 0.0, 0.9)


def test_the_list_is_distinct_held_out_and_of_the_vocabulary():
    known = phrases(50)
    assert len(set(known)) == 50
    assert all(is_held_out(text) for text in known)
    assert {word for text in known for word in text.split()} <= set(VOCABULARY)


@pytest.mark.parametrize("count", [0, -1, 51])
def test_there_are_only_so_many(count):
    with pytest.raises(InputError, match="ask for 1 to 50"):
        phrases(count)


def test_errors_are_counted_over_all_words_and_a_doubted_transcript_is_nothing_heard():
    doubted = replace(SURE, avg_logprob=-3.0)
    assert believed(SURE) == "2 cats"
    assert believed(doubted) == believed(None) == ""
    assert phrase_error_rate(["two cats", "a dog sings slowly"], [SURE, None]) == pytest.approx(4 / 6)
    assert phrase_error_rate(["two cats"], [doubted]) == 1.0


def test_what_is_not_finite_is_not_listened_to(monkeypatch):
    monkeypatch.setattr("kokoro_nb.listening.phrases.transcribe", lambda model, y, sr, words: SURE)
    assert heard_in(None, [np.zeros(4), np.array([0.0, np.nan])], 24_000) == [SURE, None]


def test_one_program_speaks_utterances_of_any_length(narrow, narrow_case, tmp_path):
    other = capture(narrow, "No.", "", g2p="espeak", seed=1)
    assert other.frames != narrow_case.frames
    (spoken,) = speak_all(narrow.model, [narrow_case, other], ["eager"], tmp_path)
    for case, audio in zip((narrow_case, other), spoken.audio, strict=True):
        plain = decode(narrow.model, case, EXPORT_PATCHES)
        # the phase of the source makes much of a rounding, so level and likeness are asked for, not equality
        assert audio.shape == plain.shape
        assert np.corrcoef(audio, plain)[0, 1] > 0.99


def test_a_runtime_that_is_not_here_says_so(narrow, narrow_case, monkeypatch):
    monkeypatch.setattr(type(BACKENDS["onnxruntime"]), "available", lambda self: "it is not installed")
    (silent,) = speak_all(narrow.model, [narrow_case], ["onnxruntime"])
    assert (silent.audio, silent.reason) == ((), "it is not installed")
