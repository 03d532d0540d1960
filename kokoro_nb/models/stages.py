"""The cuts of the decoder, as modules that can be exported: whole, its source, and what follows the source.

The source's phase is an atan2 of bins that hold little but rounding, so two correct runtimes part ways inside it. Cut
at `har`, the source's magnitude and phase, they can be compared number by number.
"""

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from kokoro.istftnet import Decoder, Generator
from torch import Tensor, nn

from kokoro_nb.models import noise


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


def harmonics(generator: Generator, f0: Tensor) -> Tensor:
    """Return `har`, the source's magnitude and phase: (1, 2 * frames) Hz -> (1, 22, 120 * frames + 1)."""
    magnitude, phase = generator.stft.transform(excitation(generator, f0))
    return torch.cat([magnitude, phase], dim=1)


def filtered(generator: Generator, x: Tensor, s: Tensor, har: Tensor) -> Tensor:
    """Run the generator from `har` to the output of its last convolution: log magnitude and phase before the sine."""
    for i in range(generator.num_upsamples):
        x = F.leaky_relu(x, negative_slope=0.1)
        x_source = generator.noise_res[i](generator.noise_convs[i](har), s)
        x = generator.ups[i](x)
        if i == generator.num_upsamples - 1:
            x = generator.reflection_pad(x)
        x = x + x_source
        first = i * generator.num_kernels
        total = generator.resblocks[first](x, s)
        for j in range(first + 1, first + generator.num_kernels):
            total = total + generator.resblocks[j](x, s)  # by index: of a slice, an export would not know the path
        x = total / generator.num_kernels
    return generator.conv_post(F.leaky_relu(x))


def spectrum(generator: Generator, x_pre: Tensor) -> tuple[Tensor, Tensor]:
    """Return magnitude and phase (radians) out of the last convolution: the exponential and the sine."""
    bins = generator.post_n_fft // 2 + 1
    return torch.exp(x_pre[:, :bins, :]), torch.sin(x_pre[:, bins:, :])


def waveform(generator: Generator, magnitude: Tensor, phase: Tensor) -> Tensor:
    """Return the audio, (1, samples), whichever STFT the generator holds."""
    return generator.stft.inverse(magnitude, phase).reshape(magnitude.shape[0], -1)


class DecoderStage(nn.Module):
    """The whole decoder with the source's noise as an input.

    It needs the patch ``explicit_noise``; without it the noise input is not read and the model draws its own.
    """

    def __init__(self, decoder: Decoder):
        super().__init__()
        self.decoder = decoder

    def forward(self, asr: Tensor, f0: Tensor, n: Tensor, s: Tensor, harmonic_noise: Tensor) -> Tensor:
        """Return the audio, (1, 600 * frames); `harmonic_noise` is (1, 600 * frames, 9), see `noise.Noise`."""
        with noise.explicit(_unheard(harmonic_noise)):
            audio = self.decoder(asr, f0, n, s)
        return audio.reshape(audio.shape[0], -1)


class SourceStage(nn.Module):
    """The harmonic source alone: pitch and noise to `har`."""

    def __init__(self, decoder: Decoder):
        super().__init__()
        self.decoder = decoder

    def forward(self, f0: Tensor, harmonic_noise: Tensor) -> Tensor:
        """Return `har`, (1, 22, 120 * frames + 1): 11 magnitudes, then 11 phases in radians."""
        with noise.explicit(_unheard(harmonic_noise)):
            return harmonics(self.decoder.generator, f0)


class ExcitationStage(SourceStage):
    """The harmonic source before its transform: pitch and noise to a signal, which is well conditioned."""

    def forward(self, f0: Tensor, harmonic_noise: Tensor) -> Tensor:
        """Return the signal, (1, 600 * frames)."""
        with noise.explicit(_unheard(harmonic_noise)):
            return excitation(self.decoder.generator, f0)


class FromHarStage(nn.Module):
    """The decoder from `har` on: the part in which every runtime can be held to the same numbers."""

    def __init__(self, decoder: Decoder):
        super().__init__()
        self.decoder = decoder

    def forward(self, asr: Tensor, f0: Tensor, n: Tensor, s: Tensor, har: Tensor) -> Tensor:
        """Return the audio, (1, 600 * frames)."""
        generator = self.decoder.generator
        x_pre = filtered(generator, trunk(self.decoder, asr, f0, n, s), s, har)
        return waveform(generator, *spectrum(generator, x_pre))


def from_har_inputs(decoder: Decoder, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the inputs of `FromHarStage` for the `inputs` of `DecoderStage`: in place of the noise, `har` in eager."""
    with torch.no_grad():
        har = SourceStage(decoder)(inputs["f0"], inputs["harmonic_noise"])
    return {**{name: inputs[name] for name in ("asr", "f0", "n", "s")}, "har": har}


class StftTransform(nn.Module):
    """The generator's forward STFT alone."""

    output_names = ("magnitude", "phase")

    def __init__(self, generator: Generator):
        super().__init__()
        self.stft = generator.stft

    def forward(self, samples: Tensor) -> tuple[Tensor, Tensor]:
        """Return magnitude and phase of (1, samples): (1, 11, samples / 5 + 1) each."""
        return self.stft.transform(samples)


class StftInverse(nn.Module):
    """The generator's inverse STFT alone."""

    def __init__(self, generator: Generator):
        super().__init__()
        self.stft = generator.stft

    def forward(self, magnitude: Tensor, phase: Tensor) -> Tensor:
        """Return (1, samples) of (1, 11, frames) twice."""
        return self.stft.inverse(magnitude, phase).reshape(magnitude.shape[0], -1)


def _unheard(harmonic_noise: Tensor) -> noise.Noise:
    """Complete the noise with zeros at the two sites that never reach the audio."""
    phase = torch.zeros(1, harmonic_noise.shape[2], dtype=harmonic_noise.dtype)
    return noise.Noise(phase, harmonic_noise, torch.zeros_like(harmonic_noise[..., :1]))


def parts(decoder: Decoder, inputs: Mapping[str, Tensor]) -> dict[str, tuple[nn.Module, dict[str, Tensor]]]:
    """Cut the decoder into parts that can be exported alone, each with the inputs that the whole gives it.

    Parameters
    ----------
    decoder : Decoder
        Patched with ``explicit_noise``.
    inputs : mapping
        Inputs of `DecoderStage`, by name.

    Returns
    -------
    dict
        Name -> (module, its inputs by name): ``source`` and within it ``stft forward``, then in the order in which the
        decoder runs them ``encode``, ``decode.0`` to ``decode.3``, ``generator`` (from its inputs to the last
        convolution), ``stft inverse``.
    """
    asr, f0, n, s = (inputs[name] for name in ("asr", "f0", "n", "s"))
    generator = decoder.generator
    blocks = {"encode": decoder.encode, **{f"decode.{i}": block for i, block in enumerate(decoder.decode)}}
    seen: dict[str, Tensor] = {}
    hooks = [
        block.register_forward_pre_hook(lambda _module, args, name=name: seen.update({name: args[0]}))
        for name, block in blocks.items()
    ]
    source = SourceStage(decoder)
    try:
        with torch.no_grad():
            x = trunk(decoder, asr, f0, n, s)
            with noise.explicit(_unheard(inputs["harmonic_noise"])):
                excitation = generator.m_source(generator.f0_upsamp(f0[:, None]).transpose(1, 2))[0]
            har = source(f0, inputs["harmonic_noise"])
            magnitude, phase = spectrum(generator, filtered(generator, x, s, har))
    finally:
        for hook in hooks:
            hook.remove()
    return {
        "source": (source, {"f0": f0, "harmonic_noise": inputs["harmonic_noise"]}),
        "stft forward": (StftTransform(generator), {"samples": excitation.transpose(1, 2).squeeze(1)}),
        **{name: (block, {"x": seen[name], "s": s}) for name, block in blocks.items()},
        "generator": (GeneratorStage(generator), {"x": x, "s": s, "har": har}),
        "stft inverse": (StftInverse(generator), {"magnitude": magnitude, "phase": phase}),
    }


class GeneratorStage(nn.Module):
    """The generator from `har` to its last convolution."""

    def __init__(self, generator: Generator):
        super().__init__()
        self.generator = generator

    def forward(self, x: Tensor, s: Tensor, har: Tensor) -> Tensor:
        """Return the output of the last convolution, (1, 22, 120 * frames + 1)."""
        return filtered(self.generator, x, s, har)
