"""The decoder in a buffer of static length, exact for any number of frames in it."""

import torch
import torch.nn.functional as F
from kokoro.custom_stft import CustomSTFT
from kokoro.istftnet import Generator, TorchSTFT
from torch import Tensor

from kokoro_nb.models import rewrites, stages
from kokoro_nb.models.architecture import SAMPLES_PER_FRAME
from kokoro_nb.models.padding.layers import within
from kokoro_nb.models.padding.lengths import Valid, of_frames


class PaddedFromHarStage(stages.FromHarStage):
    """`stages.FromHarStage` whose audio does not depend on what stands behind the valid frames, nor on how much."""

    def forward(  # type: ignore[override]
        self, asr: Tensor, f0: Tensor, n: Tensor, s: Tensor, har: Tensor, length: Tensor
    ) -> Tensor:
        """Return the audio.

        Parameters
        ----------
        asr : torch.Tensor, shape (1, channels, frames)
            Text features, 40 frames/s.
        f0, n : torch.Tensor, shape (1, 2 * frames)
            Pitch (Hz) and energy, 80/s.
        s : torch.Tensor, shape (1, 128)
            Style of the decoder.
        har : torch.Tensor, shape (1, 22, 120 * frames + 1)
            Magnitude and phase (radians) of the source.
        length : torch.Tensor, shape (1,), int64, frames
            How many frames are valid, 2 or more; what stands behind them is not read.

        Returns
        -------
        torch.Tensor, shape (1, 600 * frames)
            24 kHz, full scale 1; zeros behind the valid ``600 * length`` samples.
        """
        with within(of_frames(asr.shape[-1], length)) as valid:
            generator = self.decoder.generator
            asr, f0, n, har = (valid.zeroed(x) for x in (asr, f0, n, har))
            x_pre = stages.filtered(generator, stages.trunk(self.decoder, asr, f0, n, s), s, har)
            return sounded(generator, x_pre, valid, length)


class PaddedSourceStage(stages.SourceStage):
    """`stages.SourceStage`, exact in a buffer of static length."""

    output_names = ("har",)

    def forward(self, f0: Tensor, harmonic_noise: Tensor, length: Tensor) -> Tensor:  # type: ignore[override]
        """Return `har`, (1, 22, 120 * frames + 1), zeros behind the valid ``120 * length + 1``.

        `f0` is (1, 2 * frames) Hz, `harmonic_noise` (1, 600 * frames, 9) and `length` (1,) int64, see
        `PaddedFromHarStage`.
        """
        return source(self, f0, harmonic_noise, of_frames(f0.shape[-1] // 2, length), length)


class PaddedDecoderStage(stages.DecoderStage):
    """`stages.DecoderStage`, exact in a buffer of static length; like it, it needs the patch ``explicit_noise``."""

    def forward(  # type: ignore[override]
        self, asr: Tensor, f0: Tensor, n: Tensor, s: Tensor, harmonic_noise: Tensor, length: Tensor
    ) -> Tensor:
        """Return the audio, (1, 600 * frames), zeros behind the valid ``600 * length`` samples.

        `harmonic_noise` is (1, 600 * frames, 9), see `noise.Noise`; the others are those of `PaddedFromHarStage`.
        """
        with within(of_frames(asr.shape[-1], length)) as valid:
            asr, f0, n = (valid.zeroed(x) for x in (asr, f0, n))
            har = source(self, f0, harmonic_noise, valid, length)
            generator = self.decoder.generator
            x_pre = stages.filtered(generator, stages.trunk(self.decoder, asr, f0, n, s), s, har)
            return sounded(generator, x_pre, valid, length)


def source(
    stage: stages.SourceStage | stages.DecoderStage, f0: Tensor, harmonic_noise: Tensor, valid: Valid, length: Tensor
) -> Tensor:
    """Return `har` of the valid frames, zeros behind it.

    Without pitch in the padding the phase stands still there, which is how the up-sampling of the phase goes on behind
    the last frame. The signal is extended as the STFT extends it.
    """
    signal = stages.ExcitationStage.forward(stage, valid.zeroed(f0), harmonic_noise)  # type: ignore[arg-type]
    stft = stage.decoder.generator.stft
    har = torch.cat(stft.transform(extended(stft, signal, length)), dim=1)
    return valid.zeroed(har)


def extended(stft: TorchSTFT | CustomSTFT, signal: Tensor, length: Tensor) -> Tensor:
    """Return `signal`, (1, 600 * frames), with what the STFT would put behind ``600 * length`` samples put there."""
    frames = signal.reshape(1, -1, SAMPLES_PER_FRAME)
    number, reach = torch.arange(frames.shape[1])[None, :, None], stft.filter_length // 2
    last = (number == length - 1).to(signal.dtype).transpose(1, 2) @ torch.where(number < length, frames, 0.0)
    mirrored = not isinstance(stft, CustomSTFT) or "exact_istft" in rewrites.ON
    edge = F.pad(last, (0, reach), mode="reflect" if mirrored else stft.pad_mode)[..., SAMPLES_PER_FRAME:]
    behind = F.pad(edge, (0, SAMPLES_PER_FRAME - reach))
    return torch.where(number < length, frames, (number == length).to(signal.dtype) * behind).reshape(1, -1)


def sounded(generator: Generator, x_pre: Tensor, valid: Valid, length: Tensor) -> Tensor:
    """Return the audio of what leaves the last convolution, (1, 600 * frames), zeros behind the valid part."""
    magnitude, phase = stages.spectrum(generator, x_pre)
    audio = stages.waveform(generator, magnitude * valid.mask(magnitude.shape[-1], magnitude.dtype), phase)
    stft, frames = generator.stft, audio.reshape(1, -1, SAMPLES_PER_FRAME)
    number = torch.arange(frames.shape[1])[None, :, None]
    if not isinstance(stft, CustomSTFT) or "exact_istft" in rewrites.ON:
        ending = torch.logical_and(number == length - 1, length < frames.shape[1])
        # no torch.where: coremltools declares its result in the shape of the gain
        frames = frames * (1 + ending.to(audio.dtype) * (end_gain(stft, audio.dtype) - 1))
    return torch.where(number < length, frames, 0.0).reshape(1, -1)


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
