import math

import numpy as np
import pytest

from kokoro_nb.listening.phrases import phrases
from kokoro_nb.listening.transcript import Transcript
from kokoro_nb.training.corpus import VOICES
from kokoro_nb.training.ear import ear_judge as judges
from kokoro_nb.training.ear.ear_corpus import HELD_OUT_VOICES
from kokoro_nb.training.ear.ear_judge import judge, noise_clips, verdicts

TEXTS = ("the dog is old", "birds sing")


@pytest.fixture
def hears(monkeypatch):
    """Return a function that makes the ear hear the given transcripts, one after the other."""

    def set_up(*transcripts):
        rest = iter(transcripts)
        monkeypatch.setattr(judges, "transcribe", lambda model, audio, rate: next(rest))

    return set_up


def sure(text):
    return Transcript(text, -0.1, 0.0, 1.0)


def clips(count=2):
    return iter([np.ones(10, np.float32)] * count)


def test_a_perfect_ear_has_no_errors(hears):
    hears(sure("The dog is old."), sure("birds sing"))
    verdict = judge(None, "speech", TEXTS, clips())
    assert (verdict.signal, verdict.clips, verdict.word_error_rate, verdict.heard) == ("speech", 2, 0.0, 1.0)


def test_errors_are_counted_over_all_words(hears):
    hears(sure("the dog was old"), sure("birds sing"))
    assert judge(None, "speech", TEXTS, clips()).word_error_rate == pytest.approx(1 / 6)


def test_what_is_doubted_counts_as_nothing_heard(hears):
    hears(Transcript("the dog is old", -3.0, 0.0, 1.0), Transcript("", math.nan, math.nan, math.nan))
    verdict = judge(None, "speech", TEXTS, clips())
    assert verdict.word_error_rate == 1.0
    assert verdict.heard == 0.0


def test_there_is_one_clip_for_each_text(hears):
    hears(sure("the dog is old"), sure("birds sing"))
    with pytest.raises(ValueError, match="lengths must match"):
        judge(None, "speech", TEXTS, clips(1))


def test_noise_is_no_silence_and_differs():
    made = list(noise_clips(6))
    assert all(np.isfinite(one).all() and 1e-3 < np.abs(one).max() <= 1 for one in made)
    assert not np.array_equal(made[0], made[3])


def test_every_voice_and_control_is_judged_and_the_controls_cannot_pass(monkeypatch):
    monkeypatch.setattr(judges, "kokoro_clips", lambda texts, voice: clips(len(texts)))
    monkeypatch.setattr(
        judges, "espeak_clips", lambda texts, voice: iter(np.full(4, len(t), np.float32) for t in texts)
    )
    texts = phrases(3)
    by_length = {len(text): text for text in texts}
    assert len(by_length) == 3
    monkeypatch.setattr(judges, "transcribe", lambda model, audio, rate: sure(by_length.get(int(audio[0]), "nonsense")))
    found = {verdict.signal: verdict for verdict in verdicts(None, 3)}
    assert [name for name in found if name.startswith("espeak")] == [f"espeak {voice}" for voice in HELD_OUT_VOICES]
    assert {f"kokoro-mini {voice}" for voice in VOICES} <= set(found)
    assert found["espeak en-us"].word_error_rate == 0
    assert found["control: another sentence"].word_error_rate > 0.5
    assert found["control: noise"].word_error_rate == 1.0
