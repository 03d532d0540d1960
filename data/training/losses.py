"""What the small voice is trained to make small: spectra, durations, F0 and energy.

The spectral terms are those of Parallel WaveGAN (Yamamoto et al., 2020): spectral convergence and log-magnitude L1 at
several resolutions; the mel term is HiFi-GAN's (Kong et al., 2020); the duration terms are StyleTTS 2's (Li et al.,
2023).
"""

from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

from kokoro_nb.models.architecture import SAMPLE_RATE

RESOLUTIONS = (256, 512, 1024, 2048)  # samples; the hop is a quarter
MEL_WINDOW, MELS = 1024, 80
FLOOR = 5e-4  # of a full-scale sine's magnitude (-66 dB): below it nobody hears, and espeak's valleys are nearly silent


def magnitude(audio: Tensor, window: int, hop: int | None = None) -> Tensor:
    """Return the magnitude spectrogram under a Hann window, a full-scale sine being 1.

    Parameters
    ----------
    audio : torch.Tensor, shape (batch, samples), float32
    window : int
        Samples.
    hop : int, optional
        Samples; a quarter of the window where not given.

    Returns
    -------
    torch.Tensor, shape (batch, window // 2 + 1, frames), float32
    """
    shape = _hann(window, audio.device)
    spectrum = torch.stft(audio, window, hop or window // 4, window=shape, return_complex=True)
    return spectrum.abs() * (4 / window)


def log_mel(audio: Tensor, hop: int = MEL_WINDOW // 4) -> Tensor:
    """Return the natural logarithm of the mel spectrogram, floored at -66 dB re a full-scale sine.

    Returns
    -------
    torch.Tensor, shape (batch, 80, frames), float32
    """
    return _log(_mel_bank(audio.device) @ magnitude(audio, MEL_WINDOW, hop))


def spectral_terms(candidate: Tensor, target: Tensor) -> dict[str, Tensor]:
    """Compare two batches of audio by magnitude alone.

    Parameters
    ----------
    candidate, target : torch.Tensor, shape (batch, samples), float32

    Returns
    -------
    dict
        ``stft`` (mean over resolutions of log-magnitude L1 in nepers), ``converge`` (mean of spectral convergence, a
        ratio) and ``mel`` (log-mel L1 in nepers); scalars.
    """
    logs, convergence = [], []
    mel = torch.zeros((), device=target.device)
    for window in RESOLUTIONS:
        made, wanted = magnitude(candidate, window), magnitude(target, window)
        logs.append(F.l1_loss(_log(made), _log(wanted)))
        convergence.append((wanted - made).norm() / wanted.norm().clamp(min=1.0))
        if window == MEL_WINDOW:
            bank = _mel_bank(target.device)
            mel = F.l1_loss(_log(bank @ made), _log(bank @ wanted))
    return {"stft": torch.stack(logs).mean(), "converge": torch.stack(convergence).mean(), "mel": mel}


def duration_terms(logits: Tensor, durations: Tensor) -> dict[str, Tensor]:
    """Compare predicted with true durations.

    Parameters
    ----------
    logits : torch.Tensor, shape (batch, symbols, 50)
        Before the sigmoid: the package takes the sum of the 50 sigmoids for the duration.
    durations : torch.Tensor, shape (batch, symbols), int64, frames
        0 on padding.

    Returns
    -------
    dict
        ``duration`` (L1 in frames) and ``ordinal`` (cross-entropy of the 50 questions "longer than k frames?").
    """
    real = durations > 0
    logits, durations = logits[real], durations[real]
    asked = torch.arange(logits.shape[-1], device=logits.device)
    longer = (asked < durations[:, None]).float()
    return {
        "duration": F.l1_loss(logits.sigmoid().sum(-1), durations.float()),
        "ordinal": F.binary_cross_entropy_with_logits(logits, longer, reduction="none").sum(-1).mean(),
    }


def curve_terms(f0: Tensor, energy: Tensor, true_f0: Tensor, true_energy: Tensor) -> dict[str, Tensor]:
    """Compare predicted with measured curves, all of shape (batch, 2 * frames): ``f0`` (L1 in Hz), ``energy`` (L1)."""
    return {"f0": F.l1_loss(f0, true_f0), "energy": F.l1_loss(energy, true_energy)}


def _log(magnitudes: Tensor) -> Tensor:
    return torch.log(magnitudes + FLOOR)


@cache
def _hann(window: int, device: torch.device) -> Tensor:
    return torch.hann_window(window, device=device)


@cache
def _mel_bank(device: torch.device) -> Tensor:
    import librosa

    bank = librosa.filters.mel(sr=SAMPLE_RATE, n_fft=MEL_WINDOW, n_mels=MELS)
    bank /= bank.sum(axis=1, keepdims=True)  # the mean over a band, so the floor means the same in every band
    return torch.from_numpy(bank).to(device)
