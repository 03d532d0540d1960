"""The cuts of the model over tokens, each once: BERT, the two encoders, the durations and the alignment.

Each function computes what the package's module of the same weights computes, in operators that exporters take: no
packed sequences, no writes in place, no indexing with values that the graph itself computes.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from kokoro.model import KModel
from kokoro.modules import CustomAlbert, DurationEncoder, ProsodyPredictor, TextEncoder
from torch import Tensor, nn

from kokoro_nb.errors import InputError
from kokoro_nb.models.padding import Valid, within

HIDDEN = -1e4  # added to the attention scores of padding: exp(-1e4) is 0, and float16 holds the number


@contextmanager
def over_text(
    module: nn.Module, room: int, attention_mask: Tensor | None = None, length: Tensor | None = None
) -> Iterator[tuple[Valid, Tensor, Tensor]]:
    """Yield what is valid, where there is a token and where there is none, the last two of shape (1, room), bool.

    Parameters
    ----------
    module : torch.nn.Module
        What runs on the text inside.
    room : int
        Tokens that the buffer has room for.
    attention_mask : torch.Tensor, shape (1, room), int64, optional
        1 for each token, 0 for padding: hides the padding from attention and zeroes it, but the second direction of
        each LSTM still begins in it.
    length : torch.Tensor, shape (1,), int64, optional
        How many tokens there are: the same in place of the mask, and nothing reads the padding.

    Raises
    ------
    InputError
        If neither is given.
    """
    with within(module, Valid(room, length)) as valid:
        if length is not None:
            mask, padding = valid.inside(room)[None], valid.outside(room)[None]
        elif attention_mask is not None:
            mask = attention_mask > 0
            padding = torch.logical_not(mask)
        else:
            raise InputError("Where the text ends is not known; give its attention_mask or its length.")
        yield valid, mask, padding


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
    return attended(bert, ids, torch.where(mask, 0.0, HIDDEN))


def attended(bert: CustomAlbert, ids: Tensor, scores: Tensor) -> Tensor:
    """Run BERT with `scores`, (1, tokens), added to those of attention: 0 where there is a token, else `HIDDEN`."""
    table = bert.embeddings
    # every token is of type 0, and token i stands at position i: rows of two tables, without a look-up
    rows = table.position_embeddings.weight[: ids.shape[1]] + table.token_type_embeddings.weight[0]
    embedded = table.LayerNorm(table.word_embeddings(ids) + rows)
    scores = scores.to(embedded.dtype)[:, None, None, :]
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


def predicted(
    model: KModel, ids: Tensor, style: Tensor, speed: Tensor, mask: Tensor | None = None, length: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Run all that precedes the number of frames: durations, features of the duration encoder, text features.

    Parameters
    ----------
    model : kokoro.model.KModel
        Or any module that holds its parts under the names that they have there.
    ids, style, speed
        See `contextual`, `duration_features` and `durations`.
    mask, length
        Where the text ends: see `over_text`.

    Returns
    -------
    tuple of torch.Tensor
        (1, tokens) int64, frames; (1, tokens, hidden + 128); (1, hidden, tokens).
    """
    with over_text(model, ids.shape[1], mask, length) as (_, inside, padding):
        encoded = model.bert_encoder(contextual(model.bert, ids, inside))
        d = duration_features(model.predictor.text_encoder, encoded, style, padding)
        return durations(model.predictor, d, speed, padding), d, text_features(model.text_encoder, ids, padding)
