"""The model as four programs of static size, cut where kokoro-coreml cuts it: each exact in a buffer that is too long.

The host spreads what belongs to a token over its frames and computes the source; it pads with zeros, says by masks how
much is valid, and reads 640 and 512 features whatever the model has: a narrow model has fewer, and zeros behind.
"""

import torch
import torch.nn.functional as F
from kokoro.model import KModel
from torch import Tensor

from kokoro_nb.models import frame_cuts, token_cuts
from kokoro_nb.models.architecture import STYLE
from kokoro_nb.models.complete import TextPart
from kokoro_nb.models.padding import of_frames, within
from kokoro_nb.models.speaking import FEATURES, width
from kokoro_nb.models.stages import DecoderPart
from kokoro_nb.models.steps import PipelineStep, ProsodyStep

TEXT = 512  # features of the text


class SizedDurations(TextPart):
    """Token ids to durations and the features of each token."""

    output_names = ("pred_dur", "d", "t_en", "s", "ref_s_out")

    def __init__(self, model: KModel):
        super().__init__(model)
        self.missing = FEATURES - width(model), TEXT - model.text_encoder.embedding.embedding_dim

    def forward(self, input_ids: Tensor, attention_mask: Tensor, ref_s: Tensor, speed: Tensor) -> tuple[Tensor, ...]:
        """Predict durations.

        Parameters
        ----------
        input_ids : torch.Tensor, shape (1, tokens), int32
        attention_mask : torch.Tensor, shape (1, tokens), int32
            1 for each token, 0 behind the text.
        ref_s : torch.Tensor, shape (1, 256)
        speed : torch.Tensor, shape (1,)

        Returns
        -------
        tuple of torch.Tensor
            Durations, (1, tokens) int32, frames, 0 behind the text; features, (1, tokens, 640) and (1, 512, tokens);
            the second half of `ref_s`, and `ref_s`.
        """
        length = attention_mask.sum(dim=1)
        with token_cuts.over_text(self, input_ids.shape[1], length=length) as (_, mask, padding):
            lasting, d, t_en = token_cuts.predicted(self, input_ids, ref_s[:, STYLE:], speed, mask, padding)
        features, text = self.missing
        style = ref_s * 1.0  # coremltools takes no output that is an input under another name
        return lasting.to(torch.int32), F.pad(d, (0, features)), F.pad(t_en, (0, 0, 0, text)), ref_s[:, STYLE:], style


class SizedPitch(PipelineStep):
    """Features of each frame to pitch and energy.

    No mask is given to it: the host fills with zeros, and a frame that is valid holds the style.
    """

    parts = ProsodyStep.parts
    output_names = ("F0_pred", "N_pred")

    def __init__(self, model: KModel):
        super().__init__(model)
        self.width = width(model)

    def forward(self, en: Tensor, s: Tensor) -> tuple[Tensor, Tensor]:
        """Return pitch (Hz) and energy, (1, 2 * frames) each, of (1, 640, frames) and (1, 128)."""
        length = (en.abs().amax(dim=1) > 0).to(torch.int32).sum(dim=1)
        return frame_cuts.prosody(self, _first(en, self.width), s, length)


class SizedTrunk(DecoderPart):
    """Text features, pitch and energy to what the generator reads."""

    output_names = ("x_pre",)

    def __init__(self, model: KModel):
        super().__init__(model.decoder)
        self.width = model.text_encoder.embedding.embedding_dim

    def forward(self, asr: Tensor, f0: Tensor, n_input: Tensor, ref_s: Tensor, mask: Tensor) -> Tensor:
        """Return (1, channels, 2 * frames).

        Parameters
        ----------
        asr : torch.Tensor, shape (1, 512, frames)
        f0, n_input : torch.Tensor, shape (1, 1, 2 * frames)
        ref_s : torch.Tensor, shape (1, 256)
        mask : torch.Tensor, shape (1, 1, frames)
            1 for each valid frame.
        """
        with within(self, of_frames(asr.shape[-1], _count(mask))) as valid:
            asr, f0, n = (valid.zeroed(x) for x in (_first(asr, self.width), f0[:, 0], n_input[:, 0]))
            return valid.zeroed(frame_cuts.trunk(self.decoder, asr, f0, n, ref_s[:, :STYLE]))


class SizedGenerator(DecoderPart):
    """What the trunk gave, and the source that the host computes, to the audio."""

    output_names = ("waveform",)

    def forward(self, x_pre: Tensor, ref_s: Tensor, har: Tensor, mask: Tensor) -> Tensor:
        """Return the audio, (1, 600 * frames), zeros behind what is valid.

        Parameters
        ----------
        x_pre : torch.Tensor, shape (1, channels, 2 * frames)
        ref_s : torch.Tensor, shape (1, 256)
        har : torch.Tensor, shape (1, 22, 120 * frames + 1)
        mask : torch.Tensor, shape (1, 1, 2 * frames)
            1 for each valid position of `x_pre`.
        """
        generator = self.decoder.generator
        with within(self, of_frames(x_pre.shape[-1] // 2, _count(mask[..., ::2]))) as valid:
            x_pre, har = valid.zeroed(x_pre), valid.zeroed(har)
            x = frame_cuts.filtered(generator, x_pre, ref_s[:, :STYLE], har)
            return frame_cuts.waveform(generator, *frame_cuts.spectrum(generator, x), valid)


def _first(x: Tensor, width: int) -> Tensor:
    """Return the first channels; a slice of all of them is an alias, which coremltools does not convert."""
    return x if x.shape[1] == width else x[:, :width]


def _count(mask: Tensor) -> Tensor:
    """Return how many positions of (1, 1, positions) are valid, (1,): at most 1200, which float16 holds."""
    return torch.round(mask.sum(dim=(1, 2))).to(torch.int32)
