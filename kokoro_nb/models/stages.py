"""The parts of the model that are exported: the decoder whole, its source, what follows the source, and the prosody.

The source's phase is an atan2 of bins that hold little but rounding, so two correct runtimes part ways inside it. Cut
at `har`, the source's magnitude and phase, they can be compared number by number.

Every stage over frames takes ``length``, the number of valid frames, int64 of shape (1,), 2 or more. Given it, a buffer
of static shape is exact for any length up to its size: the valid part is what it is without padding, whatever stands
behind it, and zeros follow. Without it padding leaks into the valid part: AdaIN's statistics read it, for one.

The steps of `chain` are the pipeline from token ids to audio in smaller modules. Those over tokens take the text's
``attention_mask``: padding is hidden, but the second direction of each LSTM still begins in it.
"""

from collections.abc import Mapping
from contextlib import ExitStack
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from kokoro.istftnet import Decoder
from kokoro.model import KModel
from torch import Tensor, nn

from kokoro_nb.errors import InputError
from kokoro_nb.models import model_cuts, noise
from kokoro_nb.models.architecture import STYLE
from kokoro_nb.models.padding import of_frames, within


class PipelineStep(nn.Module):
    """One step, which holds some `parts` of a model or of a part of it, so that functions written for that run on it.

    A subclass declares either attribute where it names its base class.

    Attributes
    ----------
    parts : tuple of str
        Paths from what the step is made of; each is held under its last name.
    output_names : tuple of str
    """

    parts: ClassVar[tuple[str, ...]] = ()
    output_names: tuple[str, ...]

    def __init_subclass__(cls, parts: tuple[str, ...] = (), output_names: tuple[str, ...] = ()):
        super().__init_subclass__()
        cls.parts = parts or cls.parts
        if output_names:
            cls.output_names = output_names

    def __init__(self, owner: Any = None):
        super().__init__()
        for path in self.parts:
            setattr(self, path.rpartition(".")[2], attrgetter(path)(owner))

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Tell the type checker nothing about the parts, which belong to another class."""


class TextEncoderStep(PipelineStep, output_names=("t_en",), parts=("text_encoder",)):
    """The text encoder."""

    def forward(self, ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Return text features, (1, hidden, tokens)."""
        return model_cuts.text_features(self.text_encoder, ids, torch.logical_not(attention_mask > 0))


class BertStep(PipelineStep, output_names=("encoded",), parts=("bert", "bert_encoder")):
    """BERT and the projection behind it."""

    def forward(self, ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Return contextual features, (1, tokens, hidden)."""
        return self.bert_encoder(model_cuts.contextual(self.bert, ids, attention_mask > 0))


class DurationEncoderStep(PipelineStep, output_names=("d",), parts=("predictor.text_encoder",)):
    """The duration encoder."""

    def forward(self, encoded: Tensor, ref_s: Tensor, attention_mask: Tensor) -> Tensor:
        """Return features with style, (1, tokens, hidden + 128)."""
        return model_cuts.duration_features(
            self.text_encoder, encoded, ref_s[:, STYLE:], torch.logical_not(attention_mask > 0)
        )


class DurationsStep(PipelineStep, output_names=("pred_dur",), parts=("predictor.lstm", "predictor.duration_proj")):
    """The predictor of durations."""

    def forward(self, d: Tensor, speed: Tensor, attention_mask: Tensor) -> Tensor:
        """Return durations, (1, tokens) int64, frames."""
        return model_cuts.durations(self, d, speed, torch.logical_not(attention_mask > 0))


class AlignmentStep(PipelineStep, output_names=("alignment",)):
    """Durations to the matrix that repeats each token."""

    def __init__(self, frames: int):
        super().__init__()
        self.frames = frames

    def forward(self, pred_dur: Tensor) -> Tensor:
        """Return 0 and 1, (1, tokens, frames) float32."""
        return model_cuts.alignment(pred_dur, self.frames).float()


class ProsodyStep(PipelineStep, output_names=("f0", "n")):
    """Pitch and energy."""

    parts = ("predictor.shared", "predictor.F0", "predictor.N", "predictor.F0_proj", "predictor.N_proj")

    def forward(self, d: Tensor, alignment: Tensor, ref_s: Tensor) -> tuple[Tensor, Tensor]:
        """Return pitch (Hz) and energy, (1, 2 * frames) each."""
        return model_cuts.prosody(self, d.transpose(1, 2) @ alignment.to(d.dtype), ref_s[:, STYLE:])


class DecoderInputsStep(PipelineStep, output_names=("asr", "s")):
    """The rest of what the decoder is given."""

    def forward(self, t_en: Tensor, alignment: Tensor, ref_s: Tensor) -> tuple[Tensor, Tensor]:
        """Return text features per frame, (1, hidden, frames), and the decoder's style, (1, 128)."""
        return t_en @ alignment.to(t_en.dtype), ref_s[:, :STYLE] * 1.0


class TrunkStep(PipelineStep, output_names=("x",), parts=("F0_conv", "N_conv", "encode", "asr_res", "decode")):
    """The decoder up to its generator."""

    def forward(self, asr: Tensor, f0: Tensor, n: Tensor, s: Tensor) -> Tensor:
        """Return the generator's input, (1, channels, 2 * frames)."""
        return model_cuts.trunk(self, asr, f0, n, s)


class ExcitationStep(PipelineStep, output_names=("excitation",), parts=("f0_upsamp", "m_source")):
    """The harmonic source before its transform."""

    def forward(self, f0: Tensor, harmonic_noise: Tensor) -> Tensor:
        """Return the signal, (1, 600 * frames)."""
        with noise.explicit(noise.of_harmonics(harmonic_noise)):
            return model_cuts.excitation(self, f0)


class TransformStep(PipelineStep, output_names=("har_magnitude", "har_phase"), parts=("stft",)):
    """The source's STFT."""

    def forward(self, excitation: Tensor) -> tuple[Tensor, Tensor]:
        """Return magnitude and phase (radians) of (1, samples): (1, 11, samples / 5 + 1) each."""
        return self.stft.transform(excitation)


class GeneratorStep(PipelineStep, output_names=("x_pre", "x_post")):
    """The generator from `har` to its last convolution, the log magnitude and the phase before the sine."""

    parts = (
        *("noise_convs", "noise_res", "ups", "reflection_pad", "resblocks", "conv_post"),
        *("num_upsamples", "num_kernels"),
    )

    def forward(self, x: Tensor, s: Tensor, har_magnitude: Tensor, har_phase: Tensor) -> tuple[Tensor, Tensor]:
        """Return what enters the last convolution and what leaves it, (1, channels | 22, 120 * frames + 1)."""
        x_pre = model_cuts.before_last(self, x, s, torch.cat([har_magnitude, har_phase], dim=1))
        return x_pre, self.conv_post(x_pre)


class SpectrumStep(PipelineStep, output_names=("spec", "phase"), parts=("post_n_fft",)):
    """The exponential and the sine."""

    def forward(self, x_post: Tensor) -> tuple[Tensor, Tensor]:
        """Return magnitude and phase (radians), (1, 11, 120 * frames + 1) each."""
        return model_cuts.spectrum(self, x_post)


class WaveformStep(PipelineStep, output_names=("audio",), parts=("stft",)):
    """The inverse STFT."""

    def forward(self, spec: Tensor, phase: Tensor) -> Tensor:
        """Return the audio, (1, 600 * frames), 24 kHz, full scale 1."""
        return model_cuts.waveform(self, spec, phase)


def chain(model: KModel, frames: int) -> dict[str, PipelineStep]:
    """Cut the whole pipeline into steps, in the order of computation.

    Parameters
    ----------
    model : kokoro.model.KModel
        Its parts are shared, not copied; patched as it is to be exported.
    frames : int
        Room for frames, 40 per second.

    Returns
    -------
    dict
        Name -> module. The parameters that its forward needs are names of `case.static_inputs` or of outputs
        of earlier steps; its ``output_names`` are the names of its own.

    Raises
    ------
    InputError
        If `frames` is below 2: an instance norm has no variance over one.
    """
    if frames < 2:
        raise InputError(f"The steps cannot compute {frames} frames; give a whole number above 1.")
    generator = model.decoder.generator
    return {
        "text encoder": TextEncoderStep(model),
        "bert": BertStep(model),
        "duration encoder": DurationEncoderStep(model),
        "durations": DurationsStep(model),
        "alignment": AlignmentStep(frames),
        "F0 and N": ProsodyStep(model),
        "decoder inputs": DecoderInputsStep(),
        "trunk": TrunkStep(model.decoder),
        "source": ExcitationStep(generator),
        "har": TransformStep(generator),
        "generator": GeneratorStep(generator),
        "spectrum": SpectrumStep(generator),
        "audio": WaveformStep(generator),
    }


class DecoderPart(PipelineStep):
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
        return model_cuts.decoded(self.decoder, asr, f0, n, s, noise.of_harmonics(harmonic_noise), length)


class SourceStage(DecoderPart, output_names=("har",)):
    """The harmonic source alone: pitch and noise to `har`."""

    def forward(self, f0: Tensor, harmonic_noise: Tensor, length: Tensor | None = None) -> Tensor:
        """Return `har`, (1, 22, 120 * frames + 1): 11 magnitudes, then 11 phases in radians."""
        with noise.explicit(noise.of_harmonics(harmonic_noise)):
            return model_cuts.harmonics(self.decoder.generator, f0, of_frames(f0.shape[-1] // 2, length))


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
            return model_cuts.from_har(self.decoder, asr, f0, n, s, har, valid)


class ProsodyStage(PipelineStep, output_names=ProsodyStep.output_names, parts=ProsodyStep.parts):
    """The predictor of pitch and energy, on features that are already spread over the frames."""

    def forward(self, en: Tensor, ref_s: Tensor, length: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return pitch (Hz) and energy, (1, 2 * frames) each.

        Parameters
        ----------
        en : torch.Tensor, shape (1, hidden + 128, frames)
            Features of the duration encoder, each token's repeated for as many frames as it lasts: ``d`` times the
            matrix of `model_cuts.alignment`.
        ref_s : torch.Tensor, shape (1, 256)
            Voice.
        length : torch.Tensor, shape (1,), int64, frames, optional
            How many frames are valid, 2 or more; what stands behind them is not read.
        """
        return model_cuts.prosody(self, en, ref_s[:, STYLE:], length)


class GeneratorStage(PipelineStep, parts=("generator",)):
    """The generator of a decoder from `har` to its last convolution."""

    def forward(self, x: Tensor, s: Tensor, har: Tensor) -> Tensor:
        """Return the output of the last convolution, (1, 22, 120 * frames + 1)."""
        return model_cuts.filtered(self.generator, x, s, har)


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
    pitch = {name: inputs[name] for name in ("f0", "harmonic_noise")}
    source, excitation = SourceStage(decoder), ExcitationStep(generator)
    with torch.no_grad(), ExitStack() as hooks:
        for name, block in blocks.items():
            seeing = block.register_forward_pre_hook(lambda _module, args, name=name: seen.update({name: args[0]}))
            hooks.enter_context(seeing)
        x = model_cuts.trunk(decoder, *(inputs[name] for name in ("asr", "f0", "n", "s")))
        signal, har = excitation(**pitch), source(**pitch)
        magnitude, phase = model_cuts.spectrum(generator, model_cuts.filtered(generator, x, s, har))
    return {
        "source": (source, pitch),
        "stft forward": (TransformStep(generator), {"excitation": signal}),
        **{name: (block, {"x": seen[name], "s": s}) for name, block in blocks.items()},
        "generator": (GeneratorStage(decoder), {"x": x, "s": s, "har": har}),
        "stft inverse": (WaveformStep(generator), {"spec": magnitude, "phase": phase}),
    }
