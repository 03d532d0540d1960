"""The model as a chain of seven programs of any length, cut where FluidAudio cuts it.

Its host rounds the durations and clamps them to 1, feeds each program's results to the next, and pads nothing: every
stage computes what PyTorch computes for a text of that length. Of the attention mask zeros hide tokens from attention
alone; behind a text with padding the second direction of each LSTM would begin there.
"""

import torch
import torch.nn.functional as F
from kokoro.istftnet import Generator
from kokoro.model import KModel
from torch import Tensor

from kokoro_nb.models import frame_cuts, noise, token_cuts
from kokoro_nb.models.architecture import HARMONICS, SAMPLE_RATE, SAMPLES_PER_FRAME
from kokoro_nb.models.open_length import open_length
from kokoro_nb.models.speaking import NoiseOrigin, spread
from kokoro_nb.models.steps import PipelineStep, ProsodyStep


class AlbertStage(PipelineStep):
    """Token ids to BERT's last hidden state."""

    output_names = ("bert_dur",)
    parts = ("bert",)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Return the hidden state, (1, tokens, width)."""
        hidden = (attention_mask == 0).to(torch.float32) * token_cuts.HIDDEN  # coremltools has no where of two numbers
        return token_cuts.attended(self.bert, input_ids, hidden)


class PostAlbertStage(PipelineStep):
    """BERT's hidden state to durations and the features that are spread over the frames."""

    output_names = ("duration", "d", "t_en")
    parts = ("bert_encoder", "text_encoder", "predictor.lstm", "predictor.duration_proj")

    def __init__(self, model: KModel):
        super().__init__(model)
        self.duration_encoder = model.predictor.text_encoder

    def forward(
        self, bert_dur: Tensor, input_ids: Tensor, style_s: Tensor, speed: Tensor, attention_mask: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return durations before they are rounded, (1, tokens) frames, and both kinds of features."""
        padding = attention_mask == 0
        encoded = self.bert_encoder(bert_dur)
        d = token_cuts.duration_features(self.duration_encoder, encoded, style_s, padding)
        x, _ = self.lstm(d)
        lasting = torch.sigmoid(self.duration_proj(x)).sum(dim=-1) / speed
        return lasting, d, token_cuts.text_features(self.text_encoder, input_ids, padding)


class SpreadStage(PipelineStep):
    """Durations to the features of each frame."""

    output_names = ("en", "asr")

    def forward(self, pred_dur: Tensor, d: Tensor, t_en: Tensor) -> tuple[Tensor, Tensor]:
        """Return features of the prosody, (1, hidden + 128, frames), and of the text, (1, hidden, frames)."""
        token = spread(pred_dur)
        return d[:, token].transpose(1, 2), t_en[:, :, token]


class PitchStage(PipelineStep):
    """Features of each frame to pitch and energy."""

    output_names = ("F0", "N")
    parts = ProsodyStep.parts

    def forward(self, en: Tensor, style_s: Tensor) -> tuple[Tensor, Tensor]:
        """Return pitch (Hz) and energy, (1, 2 * frames) each."""
        return frame_cuts.prosody(self, en, style_s)


class SourcesStage(PipelineStep):
    """Pitch to what the generator adds at each of its two rates.

    Attributes
    ----------
    origin, seed, samples
        Of the noise: see `speaking.TextToAudio`.
    shows_har : bool
        Return `har` as well, for a comparison number by number.
    """

    parts = ("f0_upsamp", "m_source", "stft", "noise_convs", "noise_res")
    output_names: tuple[str, ...] = ("x_source_0", "x_source_1")  # type: ignore[misc]
    bank: Tensor

    def __init__(
        self,
        generator: Generator,
        origin: NoiseOrigin = "bank",
        seed: int = 0,
        samples: int = SAMPLE_RATE,
        shows_har: bool = False,
    ):
        super().__init__(generator)
        source = torch.Generator().manual_seed(seed)
        self.register_buffer("bank", torch.randn(samples, HARMONICS, generator=source))
        self.origin, self.shows_har = origin, shows_har
        if shows_har:
            self.output_names = (*self.output_names, "har")

    def forward(self, F0_curve: Tensor, style_timbre: Tensor) -> tuple[Tensor, ...]:
        """Return (1, channels, 20 * frames) and (1, channels, 120 * frames + 1)."""
        samples = F0_curve.shape[1] * (SAMPLES_PER_FRAME // 2)
        if self.origin == "drawn":
            drawn = torch.randn_like(torch.zeros(1, samples, HARMONICS))  # coremltools refuses randn of an open length
        else:
            drawn = self.bank[torch.arange(samples) % self.bank.shape[0]][None]
        with open_length(self), noise.explicit(noise.of_harmonics(drawn)):
            har = frame_cuts.harmonics(self, F0_curve)
        pairs = zip(self.noise_convs, self.noise_res, strict=True)
        sources = tuple(block(convolution(har), style_timbre) for convolution, block in pairs)
        return (*sources, har) if self.shows_har else sources


class VocoderStage(PipelineStep):
    """Features, pitch, energy and sources to what the last convolution reads."""

    output_names = ("anchor", "x_pre")
    parts = (
        *("decoder.F0_conv", "decoder.N_conv", "decoder.encode", "decoder.asr_res", "decoder.decode"),
        *("decoder.generator.ups", "decoder.generator.resblocks", "decoder.generator.reflection_pad"),
        *("decoder.generator.num_upsamples", "decoder.generator.num_kernels"),
    )

    def forward(
        self,
        asr: Tensor,
        F0_curve: Tensor,
        N_pred: Tensor,
        x_source_0: Tensor,
        x_source_1: Tensor,
        style_timbre: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """Return a mean, which the host ignores, and (1, channels, 120 * frames + 1)."""
        x = frame_cuts.trunk(self, asr, F0_curve, N_pred, style_timbre)
        x = frame_cuts.resonated(self, x, style_timbre, iter((x_source_0, x_source_1)))
        return x.mean().reshape(1), x


class TailStage(PipelineStep):
    """The last convolution and the inverse STFT."""

    output_names = ("audio",)
    parts = ("conv_post", "post_n_fft", "stft")

    def forward(self, x_pre: Tensor) -> Tensor:
        """Return the audio, (1, 600 * frames), 24 kHz, full scale 1."""
        return frame_cuts.waveform(self, *frame_cuts.spectrum(self, self.conv_post(F.leaky_relu(x_pre))))
