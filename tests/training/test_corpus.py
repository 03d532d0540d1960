from itertools import islice

import librosa
import numpy as np
import pytest

from kokoro_nb.errors import InputError
from kokoro_nb.models.architecture import full_config
from kokoro_nb.models.speech import encode
from kokoro_nb.training import corpus
from kokoro_nb.training.alignment import AlignmentError
from kokoro_nb.training.corpus import pitch_and_energy, read_shard, utterance
from kokoro_nb.training.sentences import punctuated, sentences, word_lists

VOCAB = full_config()["vocab"]


@pytest.fixture(scope="module")
def texts():
    return [punctuated(s, 0) for s in islice(sentences(11), 60)]


def test_nearly_every_word_list_agrees_too():
    refused = 0
    for text in islice(word_lists(0), 60):
        try:
            utterance(text, "em_espeak", VOCAB)
        except AlignmentError:
            refused += 1
    assert refused <= 6


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
