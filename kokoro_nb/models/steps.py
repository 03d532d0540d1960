"""The pipeline from token ids to audio as a chain of small modules, each to be exported alone: see `chain`.

The steps over
tokens take the text's ``attention_mask``; given ``length`` in its place, the number of its tokens, int64 of shape (1,),
they are exact in a buffer of any size, whatever stands behind the text, and leave zeros there.
"""

from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from kokoro.model import KModel
from torch import Tensor, nn

from kokoro_nb.errors import InputError
from kokoro_nb.models import frame_cuts, noise, token_cuts
from kokoro_nb.models.architecture import STYLE


class PipelineStep(nn.Module):
    """One step, which holds some `parts` of a model or of a part of it, so that functions written for that run on it.

    Attributes
    ----------
    parts : tuple of str
        Paths from what the step is made of; each is held under its last name.
    output_names : tuple of str
    """

    parts: ClassVar[tuple[str, ...]] = ()
    output_names: ClassVar[tuple[str, ...]]

    def __init__(self, owner: Any = None):
        super().__init__()
        for path in self.parts:
            setattr(self, path.rpartition(".")[2], attrgetter(path)(owner))

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Tell the type checker nothing about the parts, which belong to another class."""


class TextEncoderStep(PipelineStep):
    """The text encoder."""

    output_names = ("t_en",)
    parts = ("text_encoder",)

    def forward(self, ids: Tensor, attention_mask: Tensor | None = None, length: Tensor | None = None) -> Tensor:
        """Return text features, (1, hidden, tokens)."""
        with token_cuts.over_text(self, ids.shape[1], attention_mask, length) as (_, _, padding):
            return token_cuts.text_features(self.text_encoder, ids, padding)


class BertStep(PipelineStep):
    """BERT and the projection behind it."""

    output_names = ("encoded",)
    parts = ("bert", "bert_encoder")

    def forward(self, ids: Tensor, attention_mask: Tensor | None = None, length: Tensor | None = None) -> Tensor:
        """Return contextual features, (1, tokens, hidden)."""
        with token_cuts.over_text(self, ids.shape[1], attention_mask, length) as (valid, mask, _):
            return valid.zeroed(self.bert_encoder(token_cuts.contextual(self.bert, ids, mask)), axis=1)


class DurationEncoderStep(PipelineStep):
    """The duration encoder."""

    output_names = ("d",)
    parts = ("predictor.text_encoder",)

    def forward(
        self, encoded: Tensor, ref_s: Tensor, attention_mask: Tensor | None = None, length: Tensor | None = None
    ) -> Tensor:
        """Return features with style, (1, tokens, hidden + 128)."""
        with token_cuts.over_text(self, encoded.shape[1], attention_mask, length) as (_, _, padding):
            return token_cuts.duration_features(self.text_encoder, encoded, ref_s[:, STYLE:], padding)


class DurationsStep(PipelineStep):
    """The predictor of durations."""

    output_names = ("pred_dur",)
    parts = ("predictor.lstm", "predictor.duration_proj")

    def forward(
        self, d: Tensor, speed: Tensor, attention_mask: Tensor | None = None, length: Tensor | None = None
    ) -> Tensor:
        """Return durations, (1, tokens) int64, frames."""
        with token_cuts.over_text(self, d.shape[1], attention_mask, length) as (valid, _, padding):
            return token_cuts.durations(self, valid.zeroed(d, axis=1), speed, padding)


class AlignmentStep(PipelineStep):
    """Durations to the matrix that repeats each token."""

    output_names = ("alignment",)

    def __init__(self, frames: int):
        super().__init__()
        self.frames = frames

    def forward(self, pred_dur: Tensor) -> Tensor:
        """Return 0 and 1, (1, tokens, frames) float32."""
        return token_cuts.alignment(pred_dur, self.frames).float()


class ProsodyStep(PipelineStep):
    """Pitch and energy."""

    output_names = ("f0", "n")
    parts = ("predictor.shared", "predictor.F0", "predictor.N", "predictor.F0_proj", "predictor.N_proj")

    def forward(self, d: Tensor, alignment: Tensor, ref_s: Tensor) -> tuple[Tensor, Tensor]:
        """Return pitch (Hz) and energy, (1, 2 * frames) each."""
        return frame_cuts.prosody(self, d.transpose(1, 2) @ alignment.to(d.dtype), ref_s[:, STYLE:])


class DecoderInputsStep(PipelineStep):
    """The rest of what the decoder is given."""

    output_names = ("asr", "s")

    def forward(self, t_en: Tensor, alignment: Tensor, ref_s: Tensor) -> tuple[Tensor, Tensor]:
        """Return text features per frame, (1, hidden, frames), and the decoder's style, (1, 128)."""
        return t_en @ alignment.to(t_en.dtype), ref_s[:, :STYLE] * 1.0


class TrunkStep(PipelineStep):
    """The decoder up to its generator."""

    output_names = ("x",)
    parts = ("F0_conv", "N_conv", "encode", "asr_res", "decode")

    def forward(self, asr: Tensor, f0: Tensor, n: Tensor, s: Tensor) -> Tensor:
        """Return the generator's input, (1, channels, 2 * frames)."""
        return frame_cuts.trunk(self, asr, f0, n, s)


class ExcitationStep(PipelineStep):
    """The harmonic source before its transform."""

    output_names = ("excitation",)
    parts = ("f0_upsamp", "m_source")

    def forward(self, f0: Tensor, harmonic_noise: Tensor) -> Tensor:
        """Return the signal, (1, 600 * frames)."""
        with noise.explicit(noise.of_harmonics(harmonic_noise)):
            return frame_cuts.excitation(self, f0)


class TransformStep(PipelineStep):
    """The source's STFT."""

    output_names = ("har_magnitude", "har_phase")
    parts = ("stft",)

    def forward(self, excitation: Tensor) -> tuple[Tensor, Tensor]:
        """Return magnitude and phase (radians) of (1, samples): (1, 11, samples / 5 + 1) each."""
        return self.stft.transform(excitation)


class GeneratorStep(PipelineStep):
    """The generator from `har` to its last convolution, the log magnitude and the phase before the sine."""

    output_names = ("x_pre", "x_post")
    parts = (
        *("noise_convs", "noise_res", "ups", "reflection_pad", "resblocks", "conv_post"),
        *("num_upsamples", "num_kernels"),
    )

    def forward(self, x: Tensor, s: Tensor, har_magnitude: Tensor, har_phase: Tensor) -> tuple[Tensor, Tensor]:
        """Return what enters the last convolution and what leaves it, (1, channels | 22, 120 * frames + 1)."""
        x_pre = frame_cuts.before_last(self, x, s, torch.cat([har_magnitude, har_phase], dim=1))
        return x_pre, self.conv_post(x_pre)


class SpectrumStep(PipelineStep):
    """The exponential and the sine."""

    output_names = ("spec", "phase")
    parts = ("post_n_fft",)

    def forward(self, x_post: Tensor) -> tuple[Tensor, Tensor]:
        """Return magnitude and phase (radians), (1, 11, 120 * frames + 1) each."""
        return frame_cuts.spectrum(self, x_post)


class WaveformStep(PipelineStep):
    """The inverse STFT."""

    output_names = ("audio",)
    parts = ("stft",)

    def forward(self, spec: Tensor, phase: Tensor) -> Tensor:
        """Return the audio, (1, 600 * frames), 24 kHz, full scale 1."""
        return frame_cuts.waveform(self, spec, phase)


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
        Name -> module. The parameters that its forward needs are names of `static_buffers.static_inputs` or of outputs
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
