"""The complete model, from token ids to audio, as one graph of static shape.

Each function computes what the package's module of the same weights computes, in operators that exporters take: no
packed sequences, no writes in place, no indexing with values that the graph itself computes.
"""

import torch
from kokoro.model import KModel
from kokoro.modules import CustomAlbert, DurationEncoder, ProsodyPredictor, TextEncoder
from torch import Tensor, nn

from kokoro_nb.errors import InputError
from kokoro_nb.models import noise
from kokoro_nb.models.architecture import SAMPLES_PER_FRAME, STYLE
from kokoro_nb.models.case import Case

HIDDEN = -1e4  # added to the attention scores of padding: exp(-1e4) is 0, and float16 holds the number


def contextual(bert: CustomAlbert, ids: Tensor, mask: Tensor) -> Tensor:
    """Run BERT with an attention mask of our own in place of the one that `transformers` derives from the data.

    Parameters
    ----------
    ids : torch.Tensor, shape (1, tokens), int64
        Token ids.
    mask : torch.Tensor, shape (1, tokens), bool
        True where there is a token.

    Returns
    -------
    torch.Tensor, shape (1, tokens, width)
        The last hidden state.
    """
    table = bert.embeddings
    # every token is of type 0, and token i stands at position i: rows of two tables, without a look-up
    rows = table.position_embeddings.weight[: ids.shape[1]] + table.token_type_embeddings.weight[0]
    embedded = table.LayerNorm(table.word_embeddings(ids) + rows)
    scores = torch.where(mask, 0.0, HIDDEN).to(embedded.dtype)[:, None, None, :]
    return bert.encoder(embedded, scores.expand(1, 1, ids.shape[1], ids.shape[1])).last_hidden_state


def text_features(encoder: TextEncoder, ids: Tensor, padding: Tensor) -> Tensor:
    """Run the text encoder with an unpacked LSTM.

    Parameters
    ----------
    ids : torch.Tensor, shape (1, tokens), int64
        Token ids.
    padding : torch.Tensor, shape (1, tokens), bool
        True where there is no token.

    Returns
    -------
    torch.Tensor, shape (1, hidden, tokens)
    """
    hidden = padding[:, None]
    x = encoder.embedding(ids).transpose(1, 2).masked_fill(hidden, 0.0)
    for block in encoder.cnn:
        x = block(x).masked_fill(hidden, 0.0)
    x, _ = encoder.lstm(x.transpose(1, 2))
    return x.transpose(1, 2).masked_fill(hidden, 0.0)


def duration_features(encoder: DurationEncoder, x: Tensor, style: Tensor, padding: Tensor) -> Tensor:
    """Run the duration encoder with unpacked LSTMs.

    Parameters
    ----------
    x : torch.Tensor, shape (1, tokens, hidden)
        BERT's features after their projection.
    style : torch.Tensor, shape (1, 128)
        Style of the predictor, ``ref_s[:, 128:]``.
    padding : torch.Tensor, shape (1, tokens), bool
        True where there is no token.

    Returns
    -------
    torch.Tensor, shape (1, tokens, hidden + 128)
    """
    styles, hidden = style[:, None].expand(-1, x.shape[1], -1), padding[:, :, None]
    x = torch.cat([x, styles], dim=2).masked_fill(hidden, 0.0)
    for block in encoder.lstms:
        if isinstance(block, nn.LSTM):
            x, _ = block(x)
        else:
            x = torch.cat([block(x, style), styles], dim=2).masked_fill(hidden, 0.0)
    return x


def durations(predictor: ProsodyPredictor, d: Tensor, speed: Tensor, padding: Tensor) -> Tensor:
    """Return how long each token lasts.

    Parameters
    ----------
    d : torch.Tensor, shape (1, tokens, hidden + 128)
        Features of the duration encoder.
    speed : torch.Tensor, shape (1,)
        Divides the durations.
    padding : torch.Tensor, shape (1, tokens), bool
        True where there is no token.

    Returns
    -------
    torch.Tensor, shape (1, tokens), int64, frames
        At least 1 for a token, 0 for padding.
    """
    x, _ = predictor.lstm(d)
    lasting = torch.sigmoid(predictor.duration_proj(x)).sum(dim=-1) / speed
    return torch.round(lasting).clamp(min=1).masked_fill(padding, 0.0).to(torch.int64)


def alignment(lasting: Tensor, frames: int) -> Tensor:
    """Return the matrix that repeats each token for as many frames as it lasts.

    A token covers the frames from the sum of the durations before it up to that sum with its own; both are compared
    with the numbers of all frames. A product with it equals `torch.repeat_interleave`, filled with zeros or cut to
    `frames`.

    Parameters
    ----------
    lasting : torch.Tensor, shape (1, tokens), int64, frames
        Durations.
    frames : int
        Number of columns.

    Returns
    -------
    torch.Tensor, shape (1, tokens, frames), bool

    Examples
    --------
    >>> alignment(torch.tensor([[2, 1]]), 4).int().tolist()
    [[[1, 1, 0, 0], [0, 0, 1, 0]]]
    """
    ends = lasting.cumsum(dim=1)
    frame, begins = torch.arange(frames)[None, None], ends - lasting  # whole numbers, which float16 cannot round
    return torch.logical_and(frame >= begins[:, :, None], frame < ends[:, :, None])


class FeaturesStage(nn.Module):
    """Token ids to the inputs of the decoder, for a fixed number of tokens and of frames: all but the decoder.

    Where the text has as many tokens as there is room for and its durations add up to `frames`, this is the original
    model to rounding. **Padding leaks**: behind a shorter text the backward LSTMs start in the padding, so durations
    and features change; behind fewer frames the LSTM over frames and AdaIN's statistics read the empty tail, so pitch
    and energy change.

    Parameters
    ----------
    model : kokoro.model.KModel
        Its parts are shared, not copied, under the names that they have there.
    frames : int
        Frames of the decoder, 40 per second.

    Raises
    ------
    InputError
        If `frames` is below 2: an instance norm has no variance over one.
    """

    output_names: tuple[str, ...] = ("asr", "f0", "n", "pred_dur")

    def __init__(self, model: KModel, frames: int):
        if frames < 2:
            raise InputError(f"The model was asked for {frames} frames; give a whole number above 1.")
        super().__init__()
        self.frames = frames
        self.bert, self.bert_encoder = model.bert, model.bert_encoder
        self.predictor, self.text_encoder = model.predictor, model.text_encoder

    def forward(
        self, ids: Tensor, attention_mask: Tensor, ref_s: Tensor, speed: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Predict what the decoder needs.

        Parameters
        ----------
        ids : torch.Tensor, shape (1, tokens), int64
            Token ids between two 0, then 0 as padding.
        attention_mask : torch.Tensor, shape (1, tokens), int64
            1 for each token, 0 for padding.
        ref_s : torch.Tensor, shape (1, 256)
            Voice: style of the decoder, then of the predictor.
        speed : torch.Tensor, shape (1,)
            Divides the durations.

        Returns
        -------
        asr : torch.Tensor, shape (1, hidden, frames)
            Text features, 0 behind the text.
        f0, n : torch.Tensor, shape (1, 2 * frames)
            Pitch (Hz) and energy, 80/s.
        pred_dur : torch.Tensor, shape (1, tokens), int64, frames
            Duration of each token, 0 for padding.
        """
        mask = attention_mask > 0
        padding, style = torch.logical_not(mask), ref_s[:, STYLE:]
        encoded = self.bert_encoder(contextual(self.bert, ids, mask))
        d = duration_features(self.predictor.text_encoder, encoded, style, padding)
        lasting = durations(self.predictor, d, speed, padding)
        spread = alignment(lasting, self.frames).to(d.dtype)
        f0, n = self.predictor.F0Ntrain(d.transpose(1, 2) @ spread, style)
        return text_features(self.text_encoder, ids, padding) @ spread, f0, n, lasting


class CompleteStage(FeaturesStage):
    """Token ids to audio in one graph, for a fixed number of tokens and of frames: see `FeaturesStage`.

    It needs the patch ``explicit_noise`` for its noise inputs to be read; exporters want the other `EXPORT_PATCHES`
    too. In the decoder, too, padding leaks: AdaIN's statistics read the empty tail. A text that is too long for
    `frames` is cut; then ``audio_length_samples``, which counts all that was predicted, is more than there is audio.

    Notes
    -----
    ExecuTorch and TVM (1.5.1 and 0.27) have no recurrent operator and unroll each LSTM, the one over frames too: their
    graphs, and the time that lowering takes, grow with the number of tokens and of frames.
    """

    output_names = ("audio", "audio_length_samples", "pred_dur")

    def __init__(self, model: KModel, frames: int):
        super().__init__(model, frames)
        self.decoder = model.decoder

    def forward(  # type: ignore[override]
        self,
        ids: Tensor,
        attention_mask: Tensor,
        ref_s: Tensor,
        speed: Tensor,
        initial_phase: Tensor,
        harmonic_noise: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Speak.

        Parameters
        ----------
        ids, attention_mask, ref_s, speed : torch.Tensor
            See `FeaturesStage.forward`.
        initial_phase : torch.Tensor, shape (1, 9), cycles
            See `noise.Noise`: no sample depends on it.
        harmonic_noise : torch.Tensor, shape (1, 600 * frames, 9), standard deviations
            See `noise.Noise`.

        Returns
        -------
        audio : torch.Tensor, shape (1, 600 * frames)
            24 kHz, full scale 1; what follows ``audio_length_samples`` is no speech.
        audio_length_samples : torch.Tensor, shape (1,), int64
            600 times the sum of the durations.
        pred_dur : torch.Tensor, shape (1, tokens), int64, frames
            Duration of each token, 0 for padding.
        """
        asr, f0, n, lasting = super().forward(ids, attention_mask, ref_s, speed)
        unheard = torch.zeros_like(harmonic_noise[..., :1])
        with noise.explicit(noise.Noise(initial_phase, harmonic_noise, unheard)):
            audio = self.decoder(asr, f0, n, ref_s[:, :STYLE])
        return audio.reshape(1, -1), SAMPLES_PER_FRAME * lasting.sum(dim=1), lasting


def complete_inputs(case: Case) -> dict[str, Tensor]:
    """Return the inputs of `CompleteStage` for an utterance, without padding, on the noise that was drawn for it."""
    t = case.tensors
    given = {"ids": t["ids"], "attention_mask": torch.ones_like(t["ids"]), "ref_s": t["ref_s"]}
    noises = {name: t[name] for name in ("initial_phase", "harmonic_noise")}
    return {**given, "speed": torch.tensor([case.speed], dtype=t["ref_s"].dtype), **noises}
