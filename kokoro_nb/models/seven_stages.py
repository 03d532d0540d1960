"""The model as seven programs of any length, and as four of static size.

The seven are cut as FluidAudio cuts the model. Its host rounds the durations and clamps them to 1, feeds each program's
results to the next, and pads nothing: every stage computes what PyTorch computes for a text of that length. Of the
attention mask zeros hide tokens from attention alone; behind a text with padding the second direction of each LSTM
would begin there.

The four are cut where kokoro-coreml cuts the model, each exact in a buffer that is too long. Its host spreads what
belongs to a token over its frames and computes the source; it pads with zeros, says by masks how much is valid, and
reads 640 and 512 features whatever the model has: a narrow model has fewer, and zeros behind.
"""

import torch
import torch.nn.functional as F
from kokoro.istftnet import Generator
from kokoro.model import KModel
from torch import Tensor

from kokoro_nb.models import model_cuts, noise
from kokoro_nb.models.architecture import HARMONICS, SAMPLE_RATE, SAMPLES_PER_FRAME, STYLE
from kokoro_nb.models.padding import of_frames, open_length, within
from kokoro_nb.models.speaking import FEATURES, NoiseOrigin, TextPart, spread, width
from kokoro_nb.models.stages import DecoderPart, PipelineStep, ProsodyStep


class AlbertStage(PipelineStep, output_names=("bert_dur",), parts=("bert",)):
    """Token ids to BERT's last hidden state."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Return the hidden state, (1, tokens, width)."""
        hidden = (attention_mask == 0).to(torch.float32) * model_cuts.HIDDEN  # coremltools has no where of two numbers
        return model_cuts.attended(self.bert, input_ids, hidden)


class PostAlbertStage(PipelineStep, output_names=("duration", "d", "t_en")):
    """BERT's hidden state to durations and the features that are spread over the frames."""

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
        d = model_cuts.duration_features(self.duration_encoder, encoded, style_s, padding)
        lasting = model_cuts.lasting(self, d, speed)
        return lasting, d, model_cuts.text_features(self.text_encoder, input_ids, padding)


class SpreadStage(PipelineStep, output_names=("en", "asr")):
    """Durations to the features of each frame."""

    def forward(self, pred_dur: Tensor, d: Tensor, t_en: Tensor) -> tuple[Tensor, Tensor]:
        """Return features of the prosody, (1, hidden + 128, frames), and of the text, (1, hidden, frames)."""
        token = spread(pred_dur)
        return d[:, token].transpose(1, 2), t_en[:, :, token]


class PitchStage(ProsodyStep, output_names=("F0", "N")):
    """Features of each frame to pitch and energy."""

    def forward(self, en: Tensor, style_s: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        """Return pitch (Hz) and energy, (1, 2 * frames) each."""
        return model_cuts.prosody(self, en, style_s)


class SourcesStage(PipelineStep, output_names=("x_source_0", "x_source_1")):
    """Pitch to what the generator adds at each of its two rates.

    Parameters
    ----------
    generator : kokoro.istftnet.Generator
        Its parts are shared, not copied.
    origin, seed, samples
        Of the noise: see `speaking.TextToAudio`.
    """

    parts = ("f0_upsamp", "m_source", "stft", "noise_convs", "noise_res")
    bank: Tensor

    def __init__(self, generator: Generator, origin: NoiseOrigin = "bank", seed: int = 0, samples: int = SAMPLE_RATE):
        super().__init__(generator)
        self.register_buffer("bank", noise.bank(seed, samples))
        self.origin = origin

    def forward(self, F0_curve: Tensor, style_timbre: Tensor) -> tuple[Tensor, ...]:
        """Return (1, channels, 20 * frames) and (1, channels, 120 * frames + 1)."""
        samples = F0_curve.shape[1] * (SAMPLES_PER_FRAME // 2)
        if self.origin == "drawn":
            drawn = torch.randn_like(torch.zeros(1, samples, HARMONICS))  # coremltools refuses randn of an open length
        else:
            drawn = noise.cyclic(self.bank, samples)
        with open_length(self), noise.explicit(noise.of_harmonics(drawn)):
            har = model_cuts.harmonics(self, F0_curve)
        pairs = zip(self.noise_convs, self.noise_res, strict=True)
        return tuple(block(convolution(har), style_timbre) for convolution, block in pairs)


class VocoderStage(PipelineStep, output_names=("anchor", "x_pre")):
    """Features, pitch, energy and sources to what the last convolution reads."""

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
        x = model_cuts.trunk(self, asr, F0_curve, N_pred, style_timbre)
        x = model_cuts.resonated(self, x, style_timbre, iter((x_source_0, x_source_1)))
        return x.mean().reshape(1), x


class TailStage(PipelineStep, output_names=("audio",), parts=("conv_post", "post_n_fft", "stft")):
    """The last convolution and the inverse STFT."""

    def forward(self, x_pre: Tensor) -> Tensor:
        """Return the audio, (1, 600 * frames), 24 kHz, full scale 1."""
        return model_cuts.waveform(self, *model_cuts.spectrum(self, self.conv_post(F.leaky_relu(x_pre))))


TEXT = 512  # features of the text


class SizedDurations(TextPart, output_names=("pred_dur", "d", "t_en", "s", "ref_s_out")):
    """Token ids to durations and the features of each token."""

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
        lasting, d, t_en = model_cuts.predicted(self, input_ids, ref_s[:, STYLE:], speed, length=length)
        features, text = self.missing
        style = ref_s * 1.0  # coremltools takes no output that is an input under another name
        return lasting.to(torch.int32), F.pad(d, (0, features)), F.pad(t_en, (0, 0, 0, text)), ref_s[:, STYLE:], style


class SizedPitch(ProsodyStep, output_names=("F0_pred", "N_pred")):
    """Features of each frame to pitch and energy.

    No mask is given to it: the host fills with zeros, and a frame that is valid holds the style.
    """

    def forward(self, en: Tensor, s: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        """Return pitch (Hz) and energy, (1, 2 * frames) each, of (1, 640, frames) and (1, 128)."""
        length = (en.abs().amax(dim=1) > 0).to(torch.int32).sum(dim=1)
        return model_cuts.prosody(self, _first(en, self.shared.input_size), s, length)


class SizedTrunk(DecoderPart, output_names=("x_pre",)):
    """Text features, pitch and energy to what the generator reads."""

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
            features = _first(asr, self.decoder.asr_res[0].in_channels)
            asr, f0, n = (valid.zeroed(x) for x in (features, f0[:, 0], n_input[:, 0]))
            return valid.zeroed(model_cuts.trunk(self.decoder, asr, f0, n, ref_s[:, :STYLE]))


class SizedGenerator(DecoderPart, output_names=("waveform",)):
    """What the trunk gave, and the source that the host computes, to the audio."""

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
            x = model_cuts.filtered(generator, x_pre, ref_s[:, :STYLE], har)
            return model_cuts.waveform(generator, *model_cuts.spectrum(generator, x), valid)


def _first(x: Tensor, width: int) -> Tensor:
    """Return the first channels; a slice of all of them is an alias, which coremltools does not convert."""
    return x if x.shape[1] == width else x[:, :width]


def _count(mask: Tensor) -> Tensor:
    """Return how many positions of (1, 1, positions) are valid, (1,): at most 1200, which float16 holds."""
    return torch.round(mask.sum(dim=(1, 2))).to(torch.int32)
