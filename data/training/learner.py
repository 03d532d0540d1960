"""The small voice while it learns: the model, a style for each voice, and one step's losses.

The decoder is taught on windows, with the true alignment, F0 and energy; the predictor on whole sentences. The two meet
only in the voice's style, of which each has its own half, so either can be taught without the other. Sentences of one
batch are nearly equal in length and are cropped to the shortest: nothing is padded that the model's bidirectional
layers or instance norms would read.
"""

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from kokoro.istftnet import AdaINResBlock1
from torch import Tensor, nn

from kokoro_nb.models.architecture import SAMPLES_PER_FRAME, STYLE, NarrowKModel, initialise, narrow_config
from training.corpus import HOP, VOICES, AlignedSentence
from training.losses import MELS, curve_terms, duration_terms, log_mel, spectral_terms

WEIGHTS = {
    "stft": 1.0,
    "converge": 0.5,
    "mel": 2.0,
    "coarse": 1.0,  # the mel spectrum read off the decoder before its generator
    "duration": 0.2,
    "ordinal": 0.1,
    "f0": 0.02,
    "energy": 0.5,
}
NEIGHBOURS = 24  # a batch is drawn from so many sentences of nearly the same length


@dataclass(frozen=True)
class Batch:
    """Sentences of (nearly) the same number of frames, and a window of each.

    Attributes
    ----------
    ids, durations : torch.Tensor, shape (batch, symbols), int64
        0 on padding.
    lengths : torch.Tensor, shape (batch,), int64
        Symbols in each.
    voices : torch.Tensor, shape (batch,), int64
    places : torch.Tensor, shape (batch, frames), int64
        Which symbol each frame belongs to.
    f0, energy : torch.Tensor, shape (batch, 2 * frames), float32
    starts : torch.Tensor, shape (batch,), int64, frames
        Where each window begins.
    audio : torch.Tensor, shape (batch, 600 * window), float32
        The windows.
    """

    ids: Tensor
    durations: Tensor
    lengths: Tensor
    voices: Tensor
    places: Tensor
    f0: Tensor
    energy: Tensor
    starts: Tensor
    audio: Tensor

    def to(self, device: str) -> "Batch":
        """Return the batch on `device`."""
        return Batch(*(value.to(device) for value in vars(self).values()))


def draw_batch(corpus: list[AlignedSentence], size: int, window: int, seed: int, step: int) -> Batch:
    """Draw the batch of one step; the same for the same seed and step, whatever was drawn before.

    Parameters
    ----------
    corpus : list of AlignedSentence
        In order of length, none shorter than `window`.
    size : int
        Sentences.
    window : int
        Frames of each window.
    seed, step : int
    """
    source = np.random.default_rng([seed, step])
    near = min(NEIGHBOURS, len(corpus))
    first = source.integers(len(corpus) - near + 1)
    chosen = [corpus[first + at] for at in source.choice(near, size, replace=size > near)]
    frames = min(int(u.durations.sum()) for u in chosen)
    symbols = max(len(u.ids) for u in chosen)
    starts = source.integers(0, frames - window + 1, size)
    spans = [slice(s * SAMPLES_PER_FRAME, (s + window) * SAMPLES_PER_FRAME) for s in starts]
    return Batch(
        ids=_stack([np.pad(u.ids, (0, symbols - len(u.ids))) for u in chosen]),
        durations=_stack([np.pad(u.durations, (0, symbols - len(u.ids))) for u in chosen]),
        lengths=torch.tensor([len(u.ids) for u in chosen]),
        voices=torch.tensor([u.voice for u in chosen]),
        places=_stack([np.repeat(np.arange(len(u.ids)), u.durations)[:frames] for u in chosen]),
        f0=_stack([u.f0[: 2 * frames] for u in chosen]),
        energy=_stack([u.energy[: 2 * frames] for u in chosen]),
        starts=torch.from_numpy(starts),
        audio=_stack([u.audio[span] for u, span in zip(chosen, spans, strict=True)]),
    )


def _stack(rows: list[np.ndarray]) -> Tensor:
    return torch.from_numpy(np.stack(rows))


class Learner(nn.Module):
    """The narrow model, a style for each voice, and a head that only training uses.

    Attributes
    ----------
    model : NarrowKModel
    styles : torch.nn.Parameter, shape (voices, 256)
        What `ref_s` is made of.
    coarse : torch.nn.Conv1d
        Reads 80 mel bands, 80 times per second, off the decoder's features before the generator. The text encoder and
        the decoder's blocks learn formants from it long before the generator can pass on a useful gradient.
    """

    def __init__(self, seed: int, width: int | None = None):
        super().__init__()
        self.config = narrow_config() if width is None else narrow_config(width)
        self.model = NarrowKModel(self.config)
        initialise(self.model, seed)
        self.styles = nn.Parameter(0.3 * torch.randn(len(VOICES), 2 * STYLE, generator=_source(seed)))
        self.coarse = nn.Conv1d(self.config["istftnet"]["upsample_initial_channel"], MELS, 1)
        nn.init.normal_(self.coarse.weight, std=0.05, generator=_source(seed))
        assert self.coarse.bias is not None
        nn.init.constant_(self.coarse.bias, -5.0)
        self._settle()

    @torch.no_grad()
    def _settle(self) -> None:
        """Set what random weights would make needlessly hard."""
        generator, weights = self.model.decoder.generator, dict(self.model.decoder.named_parameters())
        weights["generator.m_source.l_linear.weight"].fill_(1.0)  # no gradient gets there: equal weights make pulses
        weights["generator.m_source.l_linear.bias"].zero_()
        weights["F0_conv.weight_g"].fill_(0.01)  # Hz -> about 1
        for module in self.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.0  # sentences are without number and the teacher is exact: there is nothing to overfit
            if isinstance(module, nn.InstanceNorm1d):
                module.requires_grad_(False)  # absent from published checkpoints; AdaIN's own gain does the same
        generator.m_source.requires_grad_(False)
        generator.conv_post.register_forward_hook(_as_float32)  # exp and istft are no place for bfloat16

    def compile_blocks(self) -> None:
        """Compile the generator's residual blocks: it fuses norm, style and Snake, and costs two minutes once."""
        import torch._dynamo

        torch._dynamo.config.recompile_limit = 256
        for module in self.model.decoder.modules():
            if isinstance(module, AdaINResBlock1):
                module.compile(dynamic=False)

    def prosody(self, batch: Batch) -> dict[str, Tensor]:
        """Return the predictor's losses on whole sentences."""
        model, style = self.model, self.styles[batch.voices, STYLE:]
        padding = batch.durations == 0
        hidden = model.bert_encoder(model.bert(batch.ids, attention_mask=(~padding).int())).transpose(-1, -2)
        alignment = F.one_hot(batch.places, batch.ids.shape[1]).transpose(1, 2).to(hidden.dtype)
        logits, en = model.predictor(hidden, style, batch.lengths, alignment, padding)
        f0, energy = model.predictor.F0Ntrain(en, style)
        return duration_terms(logits, batch.durations) | curve_terms(f0, energy, batch.f0, batch.energy)

    def sound(self, batch: Batch, bfloat16: bool, generate: bool = True) -> dict[str, Tensor]:
        """Return the decoder's losses on windows; without `generate` only those of its features."""
        decoder, device = self.model.decoder, batch.audio.device
        window = batch.audio.shape[1] // SAMPLES_PER_FRAME
        frames = batch.starts[:, None] + torch.arange(window, device=device)
        halves = 2 * batch.starts[:, None] + torch.arange(2 * window, device=device)
        encoded = self.model.text_encoder(batch.ids, batch.lengths, batch.durations == 0)
        places = batch.places.gather(1, frames)
        asr = encoded.gather(2, places[:, None, :].expand(-1, encoded.shape[1], -1))
        f0, energy = batch.f0.gather(1, halves), batch.energy.gather(1, halves)
        style = self.styles[batch.voices, :STYLE]
        generator, terms = decoder.generator, {}
        features: list[Tensor] = []
        decoder.generator = _Keep(features, generator if generate else None)
        try:
            with torch.autocast(device.type, torch.bfloat16, enabled=bfloat16):
                audio = decoder(asr, f0, energy, style)
        finally:
            decoder.generator = generator
        wanted = log_mel(batch.audio, HOP)[:, :, 1:]  # value k from about the samples that F0's value k belongs to
        terms["coarse"] = F.l1_loss(self.coarse(features[0].float()), wanted)
        if generate:
            terms |= spectral_terms(audio.squeeze(1).float(), batch.audio)
        return terms


class _Keep(nn.Module):
    """Stands before the generator and keeps what it is given."""

    def __init__(self, features: list[Tensor], generator: nn.Module | None):
        super().__init__()
        self.features, self.generator = features, generator

    def forward(self, x: Tensor, s: Tensor, f0: Tensor) -> Tensor:
        self.features.append(x)
        return x if self.generator is None else self.generator(x, s, f0)


def total(terms: dict[str, Tensor]) -> Tensor:
    """Return the weighted sum of `terms` by `WEIGHTS`."""
    return torch.stack([WEIGHTS[name] * value for name, value in terms.items()]).sum()


def _as_float32(module: nn.Module, inputs: tuple, output: Tensor) -> Tensor:
    return output.float()


def _source(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)
