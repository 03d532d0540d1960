import librosa
import numpy as np
import pytest
import torch

from kokoro_nb.training.losses import FLOOR, curve_terms, duration_terms, log_mel, magnitude, spectral_terms


def _noise(seed=0, amplitude=0.1):
    return amplitude * torch.randn(2, 12000, generator=torch.Generator().manual_seed(seed))


def test_a_full_scale_sine_has_magnitude_one():
    # 3000 Hz is bin 128 of 1024 at 24 kHz
    sine = torch.sin(2 * torch.pi * 3000 * torch.arange(12000) / 24000)[None]
    found = magnitude(sine, 1024)
    assert found[0, 128, 10].item() == pytest.approx(1.0, rel=1e-3)
    assert found[0, 10, 10].item() < 1e-3


def test_log_mel_agrees_with_librosa():
    audio = _noise()
    power = librosa.feature.melspectrogram(
        y=audio[0].numpy(), sr=24000, n_fft=1024, hop_length=256, n_mels=80, power=1.0, pad_mode="reflect"
    )
    bank = librosa.filters.mel(sr=24000, n_fft=1024, n_mels=80)
    expected = np.log(power * (4 / 1024) / bank.sum(axis=1, keepdims=True) + FLOOR)
    np.testing.assert_allclose(log_mel(audio)[0].numpy(), expected, atol=1e-3)


def test_identical_audio_has_no_loss_and_other_audio_has():
    audio = _noise()
    assert all(value.item() == 0 for value in spectral_terms(audio, audio).values())
    assert all(value.item() > 0.1 for value in spectral_terms(_noise(1), audio).values())


def test_half_the_amplitude_is_worth_ln_2_and_one_half():
    audio = _noise(amplitude=1.0)  # loud, so that the floor does not count
    terms = spectral_terms(audio / 2, audio)
    assert terms["stft"].item() == pytest.approx(np.log(2), rel=0.02)
    assert terms["mel"].item() == pytest.approx(np.log(2), rel=0.02)
    assert terms["converge"].item() == pytest.approx(0.5, rel=1e-4)  # |X - X/2| / |X|


def test_silence_is_finite_and_nan_is_not_hidden():
    silence, audio = torch.zeros(2, 12000, requires_grad=True), _noise()
    terms = spectral_terms(silence, audio)
    torch.stack(list(terms.values())).sum().backward()
    assert torch.isfinite(silence.grad).all()
    assert all(torch.isfinite(v) for v in spectral_terms(audio, torch.zeros_like(audio)).values())
    broken = audio.clone()
    broken[0, 100] = torch.nan
    assert all(torch.isnan(v) for v in spectral_terms(broken, audio).values())


def test_durations_count_real_symbols_only():
    # logits of +-20: sigmoids of 1 and 0, so the sums are 3 and 5 frames; the third symbol is padding
    logits = torch.full((1, 3, 50), -20.0)
    logits[0, 0, :3] = 20
    logits[0, 1, :5] = 20
    exact = duration_terms(logits, torch.tensor([[3, 5, 0]]))
    assert exact["duration"].item() == pytest.approx(0, abs=1e-5)
    assert exact["ordinal"].item() == pytest.approx(0, abs=1e-5)
    # 3 said 4 is one frame off, 5 said 3 two: (1 + 2) / 2
    assert duration_terms(logits, torch.tensor([[4, 3, 0]]))["duration"].item() == pytest.approx(1.5, abs=1e-5)


def test_curves_are_compared_in_hz():
    f0, energy = torch.tensor([[100.0, 0.0]]), torch.tensor([[1.0, 2.0]])
    terms = curve_terms(f0, energy, torch.tensor([[110.0, 0.0]]), energy)
    assert terms["f0"].item() == pytest.approx(5.0)  # (10 + 0) / 2
    assert terms["energy"].item() == 0
