"""The cuts of the model over frames, each once: prosody, the decoder's trunk, its source, its generator and its STFT.

Padding leaks out of four layers, see `padding`, and over both ends of the STFT. A cut that is given a length, or
what is `Valid`, is exact for it whatever stands behind, and leaves zeros there; without, everything is valid.
"""

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from kokoro.custom_stft import CustomSTFT
from kokoro.istftnet import Decoder, Generator, TorchSTFT
from kokoro.modules import ProsodyPredictor
from torch import Tensor

from kokoro_nb.models import noise, rewrites
from kokoro_nb.models.architecture import SAMPLES_PER_FRAME
from kokoro_nb.models.padding import EVERYTHING, Valid, of_frames, within


def prosody(
    predictor: ProsodyPredictor, en: Tensor, style: Tensor, length: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return pitch (Hz) and energy, (1, 2 * frames) each.

    Parameters
    ----------
    en : torch.Tensor, shape (1, hidden + 128, frames)
        Features of the duration encoder, each token's repeated for as many frames as it lasts.
    style : torch.Tensor, shape (1, 128)
        Style of the predictor, ``ref_s[:, 128:]``.
    length : torch.Tensor, shape (1,), int64, frames, optional
        How many frames are valid, 2 or more.
    """
    with within(predictor, of_frames(en.shape[-1], length)) as valid:
        f0, n = ProsodyPredictor.F0Ntrain(predictor, valid.zeroed(en), style)
        return valid.zeroed(f0), valid.zeroed(n)


def trunk(decoder: Decoder, asr: Tensor, f0: Tensor, n: Tensor, s: Tensor) -> Tensor:
    """Run the decoder up to its generator: `Decoder.forward` without its last line.

    Parameters
    ----------
    asr : torch.Tensor, shape (1, channels, frames)
        Text features, 40 frames/s.
    f0, n : torch.Tensor, shape (1, 2 * frames)
        Pitch (Hz) and energy, 80/s.
    s : torch.Tensor, shape (1, 128)
        Style of the decoder, ``ref_s[:, :128]``.

    Returns
    -------
    torch.Tensor, shape (1, channels, 2 * frames)
    """
    f0_frames, n_frames = decoder.F0_conv(f0.unsqueeze(1)), decoder.N_conv(n.unsqueeze(1))
    x = decoder.encode(torch.cat([asr, f0_frames, n_frames], dim=1), s)
    residual = decoder.asr_res(asr)
    joined = True
    for block in decoder.decode:
        if joined:
            x = torch.cat([x, residual, f0_frames, n_frames], dim=1)
        x = block(x, s)
        joined = joined and block.upsample_type == "none"
    return x


def excitation(generator: Generator, f0: Tensor) -> Tensor:
    """Return the source's signal, the sum of the harmonics and noise: (1, 2 * frames) Hz -> (1, 600 * frames)."""
    curve = generator.f0_upsamp(f0[:, None]).transpose(1, 2)
    signal, _, _ = generator.m_source(curve)
    return signal.transpose(1, 2).squeeze(1)


def harmonics(generator: Generator, f0: Tensor, valid: Valid = EVERYTHING) -> Tensor:
    """Return `har`, the source's magnitude and phase: (1, 2 * frames) Hz -> (1, 22, 120 * frames + 1).

    Without pitch in the padding the phase stands still there, which is how the up-sampling of the phase goes on behind
    the last frame. The signal is extended as the STFT extends it.
    """
    signal = excitation(generator, valid.zeroed(f0))
    if valid.length is not None:
        signal = extended(generator.stft, signal, valid.length)
    magnitude, phase = generator.stft.transform(signal)
    return valid.zeroed(torch.cat([magnitude, phase], dim=1))


def filtered(generator: Generator, x: Tensor, s: Tensor, har: Tensor) -> Tensor:
    """Run the generator from `har` to the output of its last convolution: log magnitude and phase before the sine."""
    return generator.conv_post(before_last(generator, x, s, har))


def before_last(generator: Generator, x: Tensor, s: Tensor, har: Tensor) -> Tensor:
    """Run the generator from `har` to the input of its last convolution, (1, channels, 120 * frames + 1)."""
    sources = (generator.noise_res[i](generator.noise_convs[i](har), s) for i in range(generator.num_upsamples))
    return F.leaky_relu(resonated(generator, x, s, sources))


def resonated(generator: Generator, x: Tensor, s: Tensor, sources: Iterator[Tensor]) -> Tensor:
    """Run the generator to what its last convolution reads, on what it adds at each rate, computed when its turn comes.

    Parameters
    ----------
    x : torch.Tensor, shape (1, channels, 2 * frames)
    s : torch.Tensor, shape (1, 128)
    sources : iterator of torch.Tensor
        (1, channels, 20 * frames), then (1, channels, 120 * frames + 1).
    """
    for i in range(generator.num_upsamples):
        x = F.leaky_relu(x, negative_slope=0.1)
        x_source = next(sources)
        x = generator.ups[i](x)
        if i == generator.num_upsamples - 1:
            x = generator.reflection_pad(x)
        x = x + x_source
        first = i * generator.num_kernels
        total = generator.resblocks[first](x, s)
        for j in range(first + 1, first + generator.num_kernels):
            total = total + generator.resblocks[j](x, s)  # by index: of a slice, an export would not know the path
        x = total / generator.num_kernels
    return x


def spectrum(generator: Generator, x_pre: Tensor) -> tuple[Tensor, Tensor]:
    """Return magnitude and phase (radians) out of the last convolution: the exponential and the sine."""
    bins = generator.post_n_fft // 2 + 1
    return torch.exp(x_pre[:, :bins, :]), torch.sin(x_pre[:, bins:, :])


def waveform(generator: Generator, magnitude: Tensor, phase: Tensor, valid: Valid = EVERYTHING) -> Tensor:
    """Return the audio, (1, samples), whichever STFT the generator holds; zeros behind the valid part."""
    stft, length = generator.stft, valid.length
    if length is None:
        return stft.inverse(magnitude, phase).flatten(1)
    audio = stft.inverse(magnitude * valid.mask(magnitude.shape[-1], magnitude.dtype), phase)
    frames = audio.reshape(1, -1, SAMPLES_PER_FRAME)
    number = torch.arange(frames.shape[1])[None, :, None]
    if is_exact(stft):
        ending = torch.logical_and(number == length - 1, length < frames.shape[1])
        # no torch.where: coremltools declares its result in the shape of the gain
        frames = frames * (1 + ending.to(audio.dtype) * (end_gain(stft, audio.dtype) - 1))
    return frames.masked_fill(number >= length, 0.0).reshape(1, -1)


def from_har(
    decoder: Decoder, asr: Tensor, f0: Tensor, n: Tensor, s: Tensor, har: Tensor, valid: Valid = EVERYTHING
) -> Tensor:
    """Run the decoder from `har` on: the inputs of `trunk` and `har`, zeros behind what is valid, to the audio."""
    generator = decoder.generator
    x_pre = filtered(generator, trunk(decoder, asr, f0, n, s), s, har)
    return waveform(generator, *spectrum(generator, x_pre), valid)


def decoded(
    decoder: Decoder, asr: Tensor, f0: Tensor, n: Tensor, s: Tensor, drawn: noise.Noise, length: Tensor | None = None
) -> Tensor:
    """Run the whole decoder on noise that is given to it, for which it needs the patch ``explicit_noise``.

    Parameters
    ----------
    asr, f0, n, s
        See `trunk`.
    drawn : noise.Noise
        Of as many frames.
    length : torch.Tensor, shape (1,), int64, frames, optional
        How many frames are valid, 2 or more. Without it the package's own `forward` runs, under whose paths its
        operators are known.

    Returns
    -------
    torch.Tensor, shape (1, 600 * frames)
    """
    with noise.explicit(drawn), within(decoder, of_frames(asr.shape[-1], length)) as valid:
        if length is None:
            return decoder(asr, f0, n, s).flatten(1)
        asr, f0, n = (valid.zeroed(x) for x in (asr, f0, n))
        return from_har(decoder, asr, f0, n, s, harmonics(decoder.generator, f0, valid), valid)


def is_exact(stft: TorchSTFT | CustomSTFT) -> bool:
    """Say whether `stft` reflects at its ends and divides by the windows, as PyTorch's own does."""
    return not isinstance(stft, CustomSTFT) or "exact_istft" in rewrites.ON


def extended(stft: TorchSTFT | CustomSTFT, signal: Tensor, length: Tensor) -> Tensor:
    """Return `signal`, (1, 600 * frames), with what the STFT would put behind ``600 * length`` samples put there."""
    frames = signal.reshape(1, -1, SAMPLES_PER_FRAME)
    number, reach = torch.arange(frames.shape[1])[None, :, None], stft.filter_length // 2
    last = (number == length - 1).to(signal.dtype).transpose(1, 2) @ frames.masked_fill(number >= length, 0.0)
    edge = F.pad(last, (0, reach), mode="reflect" if is_exact(stft) else stft.pad_mode)[..., SAMPLES_PER_FRAME:]
    behind = F.pad(edge, (0, SAMPLES_PER_FRAME - reach))
    return torch.where(number < length, frames, (number == length).to(signal.dtype) * behind).reshape(1, -1)


def end_gain(stft: TorchSTFT | CustomSTFT, dtype: torch.dtype) -> Tensor:
    """Return by how much each sample of the last valid frame is to be multiplied, (600,): 1 but for the last few.

    An exact inverse divides by the sum of the squared windows that cover a sample. In a longer buffer the windows
    behind the end are in that sum, though what is in them is silent.
    """
    squared, hop, reach = (stft.window**2).to(dtype)[None, None], stft.hop_length, stft.filter_length // 2
    overlapping = stft.filter_length // hop
    begin = (overlapping - 1) * hop  # of the last valid window, in whose middle the audio ends
    sums = [
        F.conv_transpose1d(torch.ones(1, 1, windows, dtype=dtype), squared, stride=hop)[0, 0, begin : begin + reach]
        for windows in (2 * overlapping, overlapping)
    ]
    return F.pad(sums[0] / sums[1], (SAMPLES_PER_FRAME - reach, 0), value=1.0)
