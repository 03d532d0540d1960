from itertools import islice

import numpy as np
import pytest

from kokoro_nb.models.phonemes import phonemise
from kokoro_nb.training.alignment import AlignmentError, align, frame_durations
from kokoro_nb.training.espeak import EspeakSpeech, speak
from kokoro_nb.training.sentences import punctuated, sentences


def test_every_closed_sentence_agrees_with_the_transcription():
    for text in (punctuated(s, 0) for s in islice(sentences(11), 60)):
        symbols, _ = phonemise(text, "espeak")
        starts = align(symbols, speak(text, rate=150))
        assert len(starts) == len(symbols) + 1
        assert (np.diff(starts) >= 0).all()


def test_other_phonemes_are_refused():
    speech = speak("old chair")
    with pytest.raises(AlignmentError, match="where the text has"):
        align("kˈOld ʧˈɛɹ", speech)
    with pytest.raises(AlignmentError, match="does not say"):
        align(phonemise("old chair", "espeak")[0] + "z", speech)


def test_stress_takes_a_small_share_and_spaces_take_pauses():
    speech = EspeakSpeech(np.zeros(4000, np.float32), ("ˈoʊ", "", "s"), np.array([0, 1000, 3000, 4000]))
    # the event of 1000 samples is shared 0.25 : 1, so O begins at 1000 * 0.25 / 1.25 = 200
    np.testing.assert_allclose(align("ˈO s", speech), [0, 200, 1000, 3000, 4000])
    # a comma and a space share the pause of 2000 samples
    np.testing.assert_allclose(align("ˈO, s", speech), [0, 200, 1000, 2000, 3000, 4000])


def test_durations_round_cumulatively_and_add_up():
    rng = np.random.default_rng(0)
    for _ in range(50):
        count = int(rng.integers(3, 40))
        frames = int(rng.integers(count, 4 * count))
        starts = np.concatenate([[0.0], np.sort(rng.uniform(0, 600 * frames, count - 1)), [600.0 * frames]])
        durations = frame_durations(starts, frames)
        assert durations.sum() == frames
        assert durations.min() >= 1
    # 599 + 600 k: lengths of 599 samples each round to 1 frame, and so does their running sum
    np.testing.assert_array_equal(frame_durations(np.array([0.0, 599, 1198, 1800]), 3), [1, 1, 1])
    # lengths of 1.4 frames: rounding each would lose 2 of 7 frames, rounding boundaries (1.4 2.8 4.2 5.6 7) loses none
    np.testing.assert_array_equal(frame_durations(600 * np.array([0, 1.4, 2.8, 4.2, 5.6, 7]), 7), [1, 2, 1, 2, 1])
    with pytest.raises(AlignmentError, match="5 symbols do not fit into 3 frames"):
        frame_durations(np.linspace(0, 1800, 6), 3)
