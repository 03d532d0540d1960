"""The package's methods that patches change, each written once, with every change marked by the patch that asks for it.

With no patch on, each rewrite computes what the original computes, bit for bit, and the tests hold them to that; where
an operator has two names, it stands under the one that coremltools knows too (`*`, not `torch.multiply`). They
replace methods of the speech model's classes, not of instances, so that an exported graph keeps the module paths.
"""

import math

import torch
import torch.nn.functional as F
from kokoro.custom_stft import CustomSTFT
from kokoro.istftnet import AdainResBlk1d, AdaINResBlock1, SineGen, SourceModuleHnNSF
from torch import Tensor

from kokoro_nb.models import noise

ON: set[str] = set()  # the class-level patches in force; `patches.class_patches` alone changes it


def sine_phase(self: SineGen, f0_values: Tensor) -> Tensor:
    """Stand in for `SineGen._f02sine`: (1, samples, 9) Hz -> (1, samples, 9) sines.

    Of a block of 300 samples the original reads two in the middle, which are equal: with ``ramped_phase`` one is read.
    The initial phase, which is added to the first sample, neither reads.
    """
    if "ramped_phase" in ON:
        block = int(self.upsample_scale)
        f0_values = f0_values.reshape(1, -1, block, f0_values.shape[-1])[:, :, block // 2]
    rad = f0_values / self.sampling_rate
    rad = rad - torch.floor(rad) if "floor_phase" in ON else rad % 1
    if "ramped_phase" in ON:
        phase = torch.cumsum(rad, dim=1) * 2 * torch.pi
        return torch.sin(ramped(phase.transpose(1, 2) * block, block).transpose(1, 2))
    if "explicit_noise" in ON:
        rand_ini = noise.given().initial_phase.to(rad)
    elif "signal_noise" in ON:
        rand_ini = torch.zeros(f0_values.shape[0], f0_values.shape[2], dtype=rad.dtype)
    else:
        rand_ini = torch.rand(f0_values.shape[0], f0_values.shape[2], device=f0_values.device)
    # the fundamental begins at 0; joined and not written in place, as an export with writes takes twice as long
    begun = rad[:, :1] + torch.cat((torch.zeros_like(rand_ini[:, :1]), rand_ini[:, 1:]), dim=1)[:, None]
    rad = torch.cat((begun, rad[:, 1:]), dim=1)
    scale = self.upsample_scale
    rad = F.interpolate(rad.transpose(1, 2), scale_factor=1 / scale, mode="linear").transpose(1, 2)
    phase = torch.cumsum(rad, dim=1) * 2 * torch.pi
    phase = F.interpolate(phase.transpose(1, 2) * scale, scale_factor=scale, mode="linear").transpose(1, 2)
    return torch.sin(phase)


def ramped(x: Tensor, times: int) -> Tensor:
    """Return the last axis up-sampled by straight lines between the middles of the blocks, level at both ends.

    >>> ramped(torch.tensor([[0.0, 4.0]]), 2).tolist()
    [[0.0, 1.0, 3.0, 4.0]]
    """
    place = (torch.arange(times, dtype=x.dtype) + 0.5) / times - 0.5  # of integers TVM loses the half
    after, before = place.clamp(min=0), (-place).clamp(min=0)
    left = torch.cat([x[..., :1], x[..., :-1]], dim=-1)[..., None]
    right = torch.cat([x[..., 1:], x[..., -1:]], dim=-1)[..., None]
    joined = x[..., None] * (1 - after - before) + left * before + right * after
    return joined.reshape(*x.shape[:-1], -1)


def sine_source(self: SineGen, f0: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Stand in for `SineGen.forward`: (1, samples, 1) Hz -> harmonics with noise, voicing, noise."""
    overtones = torch.FloatTensor([[range(1, self.harmonic_num + 2)]]).to(f0.device)
    sines = self._f02sine(f0 * overtones) * self.sine_amp
    voiced = self._f02uv(f0)
    amplitude = voiced * self.noise_std + (1 - voiced) * self.sine_amp / 3
    if "explicit_noise" in ON:
        drawn = noise.given().harmonic.to(sines)
    elif "signal_noise" in ON:
        drawn = torch.sin(137 * sines) * torch.cos(211 * sines)
    else:
        drawn = torch.randn_like(sines)
    added = amplitude * drawn
    return sines * voiced + added, voiced, added


def source(self: SourceModuleHnNSF, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Stand in for `SourceModuleHnNSF.forward`: (1, samples, 1) Hz -> excitation, noise branch, voicing."""
    with torch.no_grad():
        sines, voiced, _ = self.l_sin_gen(x)
    excitation = self.l_tanh(self.l_linear(sines))
    if "explicit_noise" in ON:
        drawn = noise.given().branch.to(voiced)
    elif "signal_noise" in ON:
        drawn = torch.zeros_like(voiced)
    else:
        drawn = torch.randn_like(voiced)
    return excitation, drawn * self.sine_amp / 3, voiced


def stft_transform(self: CustomSTFT, waveform: Tensor) -> tuple[Tensor, Tensor]:
    """Stand in for `CustomSTFT.transform`: (batch, samples) -> magnitude and phase, (batch, bins, frames) each."""
    if self.center:
        pad = self.n_fft // 2
        mode = "reflect" if "exact_istft" in ON else self.pad_mode
        waveform = F.pad(waveform, (pad, pad), mode=mode)
    x = waveform.unsqueeze(1)
    real = F.conv1d(x, self.weight_forward_real, stride=self.hop_length)
    imag = F.conv1d(x, self.weight_forward_imag, stride=self.hop_length)
    floor = 1e-7 if "sqrt_epsilon" in ON else 1e-14
    magnitude = torch.sqrt(real**2 + imag**2 + floor)
    phase = torch.atan2(imag, real)
    cut = torch.logical_and(imag == 0, real < 0)
    if "where_phase" in ON:
        phase = torch.where(cut, torch.full_like(phase, torch.pi), phase)
    else:
        phase[cut] = torch.pi
    return magnitude, phase


def stft_inverse(self: CustomSTFT, magnitude: Tensor, phase: Tensor, length: int | None = None) -> Tensor:
    """Stand in for `CustomSTFT.inverse`: (batch, bins, frames) twice -> (batch, samples)."""
    real, imag = magnitude * torch.cos(phase), magnitude * torch.sin(phase)
    if "exact_istft" in ON:  # a real signal has every bin but the first and the last twice
        once = torch.ones(1, 1, 1, dtype=real.dtype)
        twice = torch.cat((once, torch.full((1, self.freq_bins - 2, 1), 2.0, dtype=real.dtype), once), dim=1)
        real, imag = real * twice, imag * twice
    waveform = F.conv_transpose1d(real, self.weight_backward_real, stride=self.hop_length) - F.conv_transpose1d(
        imag, self.weight_backward_imag, stride=self.hop_length
    )
    if "exact_istft" in ON:  # overlap-add weighs each sample by the sum of the squared windows that cover it; that
        # sum is 0 at the very first, which `center` cuts off
        squared = (self.window**2).to(real)[None, None]
        ones = torch.ones(1, 1, magnitude.shape[-1], dtype=real.dtype)
        waveform = waveform / F.conv_transpose1d(ones, squared, stride=self.hop_length).clamp(min=1e-11)
    if self.center:
        pad = self.n_fft // 2
        waveform = waveform[..., pad:-pad]
    return waveform if length is None else waveform[..., :length]


def residual_block(self: AdainResBlk1d, x: Tensor, s: Tensor) -> Tensor:
    """Stand in for `AdainResBlk1d.forward`: (1, channels, frames), (1, 128) -> (1, channels out, frames out)."""
    total = self._residual(x, s) + self._shortcut(x)
    if "constant_scale" in ON:
        return total * (1 / math.sqrt(2))
    return total * torch.rsqrt(torch.tensor(2))


def snake_block(self: AdaINResBlock1, x: Tensor, s: Tensor) -> Tensor:
    """Stand in for `AdaINResBlock1.forward`: (1, channels, frames), (1, 128) -> (1, channels, frames)."""
    steps = (self.convs1, self.convs2, self.adain1, self.adain2, self.alpha1, self.alpha2)
    for conv1, conv2, norm1, norm2, alpha1, alpha2 in zip(*steps, strict=True):
        y = conv1(_snake(norm1(x, s), alpha1))
        x = conv2(_snake(norm2(y, s), alpha2)) + x
    return x


def _snake(x: Tensor, alpha: Tensor) -> Tensor:
    """Return x + sin²(alpha x) / alpha, per channel (Ziyin et al. 2020, "Neural Networks Fail to Learn Periodic
    Functions and How to Fix It").
    """
    if "divided_snake" in ON:
        return x + torch.sin(alpha * x) ** 2 / alpha
    return x + (1 / alpha) * (torch.sin(alpha * x) ** 2)
