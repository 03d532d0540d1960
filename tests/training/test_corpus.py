from itertools import islice

import librosa
import numpy as np
import pytest

from kokoro_nb.errors import InputError
from kokoro_nb.models.architecture import full_config
from kokoro_nb.models.speech import encode, phonemise
from kokoro_nb.training import corpus
from kokoro_nb.training.corpus import Disagreement, align, frame_durations, pitch_and_energy, read_shard, utterance
from kokoro_nb.training.espeak import Speech, speak
from kokoro_nb.training.sentences import punctuated, sentences, word_lists

VOCAB = full_config()["vocab"]


@pytest.fixture(scope="module")
def texts():
    return [punctuated(s, 0) for s in islice(sentences(11), 60)]


def test_every_closed_sentence_agrees_with_the_transcription(texts):
    for text in texts:
        symbols, _ = phonemise(text, "espeak")
        starts = align(symbols, speak(text, rate=150))
        assert len(starts) == len(symbols) + 1
        assert (np.diff(starts) >= 0).all()


def test_nearly_every_word_list_agrees_too():
    refused = 0
    for text in islice(word_lists(0), 60):
        try:
            utterance(text, "em_espeak", VOCAB)
        except Disagreement:
            refused += 1
    assert refused <= 6


def test_other_phonemes_are_refused():
    speech = speak("old chair")
    with pytest.raises(Disagreement, match="where the text has"):
        align("kˈOld ʧˈɛɹ", speech)
    with pytest.raises(Disagreement, match="does not say"):
        align(phonemise("old chair", "espeak")[0] + "z", speech)


def test_stress_takes_a_small_share_and_spaces_take_pauses():
    speech = Speech(np.zeros(4000, np.float32), ("ˈoʊ", "", "s"), np.array([0, 1000, 3000, 4000]))
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
    with pytest.raises(Disagreement, match="5 symbols do not fit into 3 frames"):
        frame_durations(np.linspace(0, 1800, 6), 3)


@pytest.mark.parametrize("voice", corpus.VOICES)
def test_an_utterance_fits_the_model(voice, texts):
    said = utterance(texts[0], voice, VOCAB)
    frames = int(said.durations.sum())
    assert len(said.audio) == 600 * frames
    assert len(said.f0) == len(said.energy) == 2 * frames
    assert len(said.ids) == len(said.durations)
    np.testing.assert_array_equal(said.ids, encode(VOCAB, texts[0], "espeak").ids[0])
    assert not said.audio[: corpus.LEAD].any()
    assert np.isfinite(said.energy).all()


def test_f0_agrees_with_pyin_and_is_zero_where_unvoiced(texts):
    said = utterance(texts[0], "ef_espeak", VOCAB)
    other, voiced, _ = librosa.pyin(said.audio, fmin=60, fmax=420, sr=24000, hop_length=300, frame_length=1024)
    both = voiced[: len(said.f0)] & (said.f0 > 0)
    assert both.mean() > 0.3
    assert np.median(np.abs(other[: len(said.f0)][both] / said.f0[both] - 1)) < 0.03
    assert not said.f0[:4].any(), "silence has no pitch"


def test_f0_and_energy_of_a_known_wave():
    time = np.arange(24000) / 24000
    sine = (0.5 * np.sin(2 * np.pi * 150 * time)).astype(np.float32)
    f0, energy = pitch_and_energy(sine)
    np.testing.assert_allclose(f0[5:-5], 150, rtol=0.01)
    # RMS of a sine of amplitude 0.5 is 0.3536; 600 samples are 3.75 periods, so the ripple stays below 0.05
    np.testing.assert_allclose(energy[5:-5], np.log(0.5 / np.sqrt(2)) + corpus.ENERGY_OFFSET, atol=0.05)
    noise = np.random.default_rng(0).normal(0, 0.1, 24000).astype(np.float32)
    assert not pitch_and_energy(noise)[0].any()
    f0, energy = pitch_and_energy(np.zeros(6000, np.float32))
    assert not f0.any()
    np.testing.assert_allclose(energy, np.log(corpus.QUIET) + corpus.ENERGY_OFFSET, rtol=1e-6)


def test_a_corpus_is_made_once_and_read_back(tmp_path, monkeypatch):
    monkeypatch.setenv("KOKORO_NB_CACHE", str(tmp_path))
    monkeypatch.setattr(corpus, "SHARD", 4)
    made = corpus.build_corpus(8, seed=0)
    assert len(made) == 8
    assert [u.voice for u in made] == [0, 1] * 4
    files = sorted(corpus.corpus_folder(8, 0).glob("*.npz"))
    stamps = [f.stat().st_mtime_ns for f in files]
    files[1].unlink()
    again = corpus.build_corpus(8, seed=0)
    assert files[0].stat().st_mtime_ns == stamps[0], "what is there is not made again"
    for one, other in zip(made, again, strict=True):
        assert one.text == other.text
        np.testing.assert_array_equal(one.audio, other.audio)
        np.testing.assert_array_equal(one.durations, other.durations)
        assert len(one.audio) == 600 * one.durations.sum() == 300 * len(one.f0)
    fresh = utterance(made[0].text, "em_espeak", VOCAB)
    stored = read_shard(files[0])[0]
    np.testing.assert_array_equal(stored.ids, fresh.ids)
    np.testing.assert_allclose(stored.audio, fresh.audio, atol=1 / 32767)
    np.testing.assert_allclose(stored.f0, fresh.f0, rtol=1e-3)
    with pytest.raises(InputError, match="multiple"):
        corpus.build_corpus(6, seed=0)
