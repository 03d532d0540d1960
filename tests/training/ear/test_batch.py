import numpy as np
import pytest
import torch
from whisper.audio import N_FRAMES, log_mel_spectrogram, pad_or_trim

from kokoro_nb.training.ear import batch as batches
from kokoro_nb.training.ear.batch import IGNORED, HeardClip, collate, draw_ear_batch, plain, warp
from kokoro_nb.training.ear.ear_corpus import make_clip, mel_of
from kokoro_nb.training.ear.tokens import tokenizer, trained_tokens
from kokoro_nb.training.espeak import speak
from kokoro_nb.training.sentences import VOCABULARY


def source(seed=0):
    return np.random.default_rng(seed)


def test_a_step_draws_the_same_batch_whatever_was_drawn_before(tiny_clips):
    first, other, again = (draw_ear_batch(tiny_clips, 4, 0, step) for step in (7, 8, 7))
    assert all(torch.equal(vars(first)[name], vars(again)[name]) for name in vars(first))
    assert first.mel.shape != other.mel.shape or not torch.equal(first.mel, other.mel)


def test_drawn_spectrograms_are_finite_and_as_deep_as_whispers(tiny_clips):
    for step in range(30):
        mel = draw_ear_batch(tiny_clips, 4, 0, step).mel
        assert torch.isfinite(mel).all()
        assert mel.dtype == torch.float32
        assert mel.shape[2] % 20 == 0
    assert draw_ear_batch(tiny_clips, 2, 0, 0, full=True).mel.shape == (2, 80, 3000)


def test_a_plain_clip_is_what_whisper_is_shown(tiny_clips):
    speech = speak("john sings", "en-us+m3", 150, 50)
    clip = make_clip("john sings", "en-us+m3", 150, 50)
    window = collate([plain(clip, lead=0)], source(), 3000).mel[0]
    official = pad_or_trim(log_mel_spectrogram(mel_audio(speech.audio)), N_FRAMES)
    frames = clip.mel.shape[1]
    # stored in float16: three decimals
    torch.testing.assert_close(window[:, :frames], official[:, :frames], atol=2e-3, rtol=0)
    assert window[0, -1].item() in (0.0, float(clip.mel.max()) - 2.0)
    assert window[:, frames:].unique().numel() == 1


def mel_audio(audio):
    import librosa

    return librosa.resample(audio, orig_sr=24_000, target_sr=16_000)


def test_a_gain_is_a_shift_and_noise_a_sum_of_powers():
    noise = 0.1 * source().standard_normal(16_000).astype(np.float32)
    shift = mel_of(10 * noise, 16_000) - mel_of(noise, 16_000)
    np.testing.assert_allclose(shift, 0.5, atol=1e-4)  # 20 dB of 40 dB to the unit
    one = np.full((80, 4), 0.2, np.float32)
    assert np.logaddexp(batches.NEPERS * one, batches.NEPERS * one) / batches.NEPERS == pytest.approx(
        0.2 + np.log10(2) / 4
    )


def test_a_warp_by_one_changes_nothing_and_others_move_what_is_there():
    mel = source().random((80, 50), np.float32)
    np.testing.assert_array_equal(warp(mel, 1.0, 1.0, 0.0), mel)
    mark = np.zeros((80, 50), np.float32)
    mark[40, 20] = 1
    moved = warp(mark, 1.5, 1.0, 3.0)
    assert moved.shape == (80, 75)
    assert np.unravel_index(moved.argmax(), moved.shape) == (43, 30)


def test_labels_and_places_follow_the_words(tiny_clips):
    clip = next(clip for clip in tiny_clips if clip.text == "she found the yellow box")
    batch = collate([plain(clip, lead=10)], source(3))
    words = clip.words()
    for word, begin, end in words:
        middle = round((begin + end) / 4 + 5)
        assert batch.words[0, middle] == VOCABULARY.index(word) + 1
    spans = [tuple(place) for place in batch.places[0].tolist() if place[1] > place[0]]
    assert len(spans) == sum(len(trained_tokens().words[word]) for word in clip.text.split())
    assert all(first < last for first, last in spans)
    assert batch.words[0, 2] == 0, "it begins with silence"


def test_the_targets_are_whispers_own_sequences(tiny_clips):
    tokens, clip = trained_tokens(), tiny_clips[0]
    rows = [collate([plain(clip)], source(seed)) for seed in range(12)]
    spelt = tokenizer().encode(f" {clip.text}")
    for row in rows:
        wanted = [tokens.ids[at] for at in row.wanted[0].tolist() if at != IGNORED]
        given = [tokens.ids[at] for at in row.given[0].tolist()]
        assert given[0] == tokenizer().sot
        assert [t for t in wanted if t < tokenizer().eot] == spelt
        assert wanted[-1] == tokenizer().eot
        assert given[1] in (tokenizer().timestamp_begin, tokenizer().no_timestamps)
    assert len({row.given[0, 1].item() for row in rows}) == 2, "with and without timestamps"


def test_what_holds_no_speech_is_called_so():
    tokens = trained_tokens()
    batch = collate([HeardClip(np.zeros((80, 40), np.float32), [], [])], source())
    assert batch.wanted.tolist() == [[tokens.silent, tokens.end]]
    assert batch.given.tolist() == [[tokens.start, tokens.times[0]]]
    assert not batch.words.any()


def test_every_word_of_the_vocabulary_can_be_said():
    tokens = trained_tokens()
    assert {tokens.text(list(tokens.words[word])) for word in VOCABULARY} == set(VOCABULARY)
    assert tokens.time(0.0) == tokens.times[0]
    assert tokens.ids[tokens.time(1.23)] == tokenizer().timestamp_begin + 65  # 1.30 s
    assert tokens.time(99) == tokens.times[-1]
