from itertools import islice

import numpy as np
import pytest
from whisper.audio import log_mel_spectrogram

from kokoro_nb.errors import InputError
from kokoro_nb.training import corpus
from kokoro_nb.training.ear import ear_corpus
from kokoro_nb.training.ear.ear_corpus import HELD_OUT_VOICES, TRAINED, build_clips, ear_texts, make_clip, mel_of
from kokoro_nb.training.espeak import speak
from kokoro_nb.training.sentences import VOCABULARY, is_held_out


def test_what_the_ear_judges_it_was_not_taught():
    assert not set(TRAINED) & set(HELD_OUT_VOICES)
    assert {how["voice"] for how in corpus.VOICES.values()} <= set(HELD_OUT_VOICES)
    texts = list(islice(ear_texts(0), 500))
    assert not any(is_held_out(text) for text in texts)
    assert {word for text in texts for word in text.split()} <= set(VOCABULARY)


def test_the_same_seed_gives_the_same_texts_and_another_does_not():
    first, again, other = (list(islice(ear_texts(seed), 40)) for seed in (0, 0, 1))
    assert first == again != other


def test_sounds_and_words_stand_where_they_are_said():
    clip = make_clip("so many dogs", "en-us+m3", 120, 50)
    assert [word for word, _, _ in clip.words()] == ["so", "many", "dogs"]
    sounds = {symbol: (begin, end) for symbol, begin, end in clip.sounds()}
    assert sounds["O"][0] == pytest.approx(sounds["s"][1])
    assert clip.words()[0][1:] == (sounds["s"][0], sounds["O"][1])
    assert clip.words()[-1][2] == pytest.approx(clip.mel.shape[1], abs=3)
    high, low = (clip.mel[60:, int(b) + 1 : int(e)].mean() for b, e in (sounds["s"], sounds["O"]))
    assert high > low + 0.3, "a fricative is 12 dB louder up there than a vowel"


def test_the_spectrogram_is_whispers_own():
    time = np.arange(32_000) / 16_000
    sine = (0.3 * np.sin(2 * np.pi * 440 * time)).astype(np.float32)
    np.testing.assert_array_equal(mel_of(sine, 16_000), log_mel_spectrogram(sine).numpy())
    loudest = mel_of(np.sin(2 * np.pi * 440 * np.arange(48_000) / 24_000).astype(np.float32), 24_000).argmax(0)
    assert np.unique(loudest[5:-5]).tolist() == np.unique(mel_of(sine, 16_000).argmax(0)[5:-5]).tolist()


def test_clips_are_made_once_and_read_back(tmp_path, monkeypatch):
    monkeypatch.setenv("KOKORO_NB_CACHE", str(tmp_path))
    monkeypatch.setattr(ear_corpus, "SHARD", 3)
    made = build_clips(6, seed=0)
    files = sorted(ear_corpus.clips_folder(0).glob("*.npz"))
    stamp = files[0].stat().st_mtime_ns
    files[1].unlink()
    again = build_clips(6, seed=0)
    assert files[0].stat().st_mtime_ns == stamp, "what is there is not made again"
    for one, other in zip(made, again, strict=True):
        assert (one.text, one.voice, one.symbols) == (other.text, other.voice, other.symbols)
        np.testing.assert_array_equal(one.mel, other.mel)
        np.testing.assert_array_equal(one.starts, other.starts)
        assert len(one.words()) == len(one.text.split())
    with pytest.raises(InputError, match="multiple"):
        build_clips(4, seed=0)


def test_a_voice_that_espeak_lacks_is_refused():
    with pytest.raises(InputError, match="no voice"):
        speak("so", "xx-none")
