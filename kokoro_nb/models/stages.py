"""The parts of the model that are exported: the decoder whole, its source, what follows the source, and the prosody.

The source's phase is an atan2 of bins that hold little but rounding, so two correct runtimes part ways inside it. Cut
at `har`, the source's magnitude and phase, they can be compared number by number.

Every stage over frames takes ``length``, the number of valid frames, int64 of shape (1,), 2 or more. Given it, a buffer
of static shape is exact for any length up to its size: the valid part is what it is without padding, whatever stands
behind it, and zeros follow. Without it padding leaks into the valid part: AdaIN's statistics read it, for one.
"""

from collections.abc import Mapping

import torch
from kokoro.istftnet import Decoder, Generator
from torch import Tensor, nn

from kokoro_nb.models import frame_cuts, noise
from kokoro_nb.models.architecture import STYLE
from kokoro_nb.models.padding import of_frames, within
from kokoro_nb.models.steps import ExcitationStep, ProsodyStep, TransformStep, WaveformStep


class DecoderPart(nn.Module):
    """A part of the decoder, which keeps the names that its modules have there."""

    def __init__(self, decoder: Decoder):
        super().__init__()
        self.decoder = decoder


class DecoderStage(DecoderPart):
    """The whole decoder with the source's noise as an input.

    It needs the patch ``explicit_noise``; without it the noise input is not read and the model draws its own.
    """

    def forward(
        self, asr: Tensor, f0: Tensor, n: Tensor, s: Tensor, harmonic_noise: Tensor, length: Tensor | None = None
    ) -> Tensor:
        """Return the audio, (1, 600 * frames); `harmonic_noise` is (1, 600 * frames, 9), see `noise.Noise`."""
        return frame_cuts.decoded(self.decoder, asr, f0, n, s, noise.of_harmonics(harmonic_noise), length)


class SourceStage(DecoderPart):
    """The harmonic source alone: pitch and noise to `har`."""

    output_names = ("har",)

    def forward(self, f0: Tensor, harmonic_noise: Tensor, length: Tensor | None = None) -> Tensor:
        """Return `har`, (1, 22, 120 * frames + 1): 11 magnitudes, then 11 phases in radians."""
        with noise.explicit(noise.of_harmonics(harmonic_noise)):
            return frame_cuts.harmonics(self.decoder.generator, f0, of_frames(f0.shape[-1] // 2, length))


class FromHarStage(DecoderPart):
    """The decoder from `har` on: the part in which every runtime can be held to the same numbers."""

    def forward(
        self, asr: Tensor, f0: Tensor, n: Tensor, s: Tensor, har: Tensor, length: Tensor | None = None
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
        length : torch.Tensor, shape (1,), int64, frames, optional
            How many frames are valid, 2 or more; what stands behind them is not read.

        Returns
        -------
        torch.Tensor, shape (1, 600 * frames)
            24 kHz, full scale 1; with a length, zeros behind the valid ``600 * length`` samples.
        """
        with within(self, of_frames(asr.shape[-1], length)) as valid:
            asr, f0, n, har = (valid.zeroed(x) for x in (asr, f0, n, har))
            return frame_cuts.from_har(self.decoder, asr, f0, n, s, har, valid)


class ProsodyStage(ProsodyStep):
    """The predictor of pitch and energy, on features that are already spread over the frames."""

    def forward(  # type: ignore[override]
        self, en: Tensor, ref_s: Tensor, length: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return pitch (Hz) and energy, (1, 2 * frames) each.

        Parameters
        ----------
        en : torch.Tensor, shape (1, hidden + 128, frames)
            Features of the duration encoder, each token's repeated for as many frames as it lasts: ``d`` times the
            matrix of `token_cuts.alignment`.
        ref_s : torch.Tensor, shape (1, 256)
            Voice.
        length : torch.Tensor, shape (1,), int64, frames, optional
            How many frames are valid, 2 or more; what stands behind them is not read.
        """
        return frame_cuts.prosody(self, en, ref_s[:, STYLE:], length)


class GeneratorStage(nn.Module):
    """The generator from `har` to its last convolution."""

    def __init__(self, generator: Generator):
        super().__init__()
        self.generator = generator

    def forward(self, x: Tensor, s: Tensor, har: Tensor) -> Tensor:
        """Return the output of the last convolution, (1, 22, 120 * frames + 1)."""
        return frame_cuts.filtered(self.generator, x, s, har)


def from_har_inputs(decoder: Decoder, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the inputs of `FromHarStage` for the `inputs` of `DecoderStage`: in place of the noise, `har` in eager."""
    with torch.no_grad():
        har = SourceStage(decoder)(inputs["f0"], inputs["harmonic_noise"])
    return {**{name: inputs[name] for name in ("asr", "f0", "n", "s")}, "har": har}


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
    s, generator = inputs["s"], decoder.generator
    blocks = {"encode": decoder.encode, **{f"decode.{i}": block for i, block in enumerate(decoder.decode)}}
    seen: dict[str, Tensor] = {}
    hooks = [
        block.register_forward_pre_hook(lambda _module, args, name=name: seen.update({name: args[0]}))
        for name, block in blocks.items()
    ]
    pitch = {name: inputs[name] for name in ("f0", "harmonic_noise")}
    source, excitation = SourceStage(decoder), ExcitationStep(generator)
    try:
        with torch.no_grad():
            x = frame_cuts.trunk(decoder, *(inputs[name] for name in ("asr", "f0", "n", "s")))
            signal, har = excitation(**pitch), source(**pitch)
            magnitude, phase = frame_cuts.spectrum(generator, frame_cuts.filtered(generator, x, s, har))
    finally:
        for hook in hooks:
            hook.remove()
    return {
        "source": (source, pitch),
        "stft forward": (TransformStep(generator), {"excitation": signal}),
        **{name: (block, {"x": seen[name], "s": s}) for name, block in blocks.items()},
        "generator": (GeneratorStage(generator), {"x": x, "s": s, "har": har}),
        "stft inverse": (WaveformStep(generator), {"spec": magnitude, "phase": phase}),
    }
