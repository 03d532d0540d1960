"""The streaming transformers of PocketTTS with their caches as tensors that go in and come out.

The package keeps a cache that it fills with NaN and writes to in place, and reads the part that is written, whose
length is a number outside of the graph. Here the position is a tensor, the whole cache is read every time, and a mask
hides what is not written yet; so it starts at zero, for what a mask hides from a softmax still enters its product.
"""

import math
from collections.abc import Callable
from typing import Literal

import torch
import torch.nn.functional as F
from pocket_tts.modules.attention import StreamingMultiheadAttention
from pocket_tts.modules.transformer import StreamingTransformer
from torch import Tensor

Write = Literal["one_hot", "scatter"]


def rotation(positions: Tensor, channels: int, max_period: float, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return cosine and sine of the angles of the rotary embedding, which grow with the position.

    Parameters
    ----------
    positions : torch.Tensor, shape (tokens,), int64
        Absolute positions.
    channels : int
        Of a head; two of them turn by the same angle.
    max_period : float
        About 2 pi times this is the period of the slowest pair, in positions.
    dtype : torch.dtype
        What to compute in.

    Returns
    -------
    tuple of torch.Tensor, shape (tokens, 1, channels / 2)
    """
    pairs = torch.arange(channels // 2, dtype=dtype)
    angles = positions.to(dtype)[:, None, None] * torch.exp(pairs * (-2 * math.log(max_period) / channels))
    return torch.cos(angles), torch.sin(angles)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn channels 2 i and 2 i + 1 of `x`, (tokens, heads, channels), by the angles of `rotation`."""
    real, imaginary = x.unflatten(2, (-1, 2)).unbind(dim=3)
    return torch.stack([real * cos - imaginary * sin, real * sin + imaginary * cos], dim=3).flatten(2)


def written(cache: Tensor, new: Tensor, position: Tensor, count: Tensor | int, write: Write) -> Tensor:
    """Return `cache` with `new` at `position`.

    Parameters
    ----------
    cache : torch.Tensor, shape (capacity, heads, channels)
        Keys or values.
    new : torch.Tensor, shape (tokens, heads, channels)
        What to write.
    position : torch.Tensor, shape (1,), int64
        Where the first token goes.
    count : torch.Tensor of shape (1,) or int
        How many tokens are to be written.
    write : {"one_hot", "scatter"}
        ``one_hot``: by a product with a matrix of zeros and ones, in operators that every runtime has; only the first
        `count` tokens are written, and what does not fit is not. ``scatter``: by `torch.scatter`; all tokens are
        written, those after `count` where the next ones will be, and all must fit.

    Returns
    -------
    torch.Tensor, shape (capacity, heads, channels)

    Examples
    --------
    >>> written(torch.zeros(4, 1, 1), torch.ones(2, 1, 1), torch.tensor([1]), 2, "one_hot").flatten().tolist()
    [0.0, 1.0, 1.0, 0.0]
    """
    tokens = new.shape[0]
    if write == "scatter":
        rows = (position + torch.arange(tokens))[:, None, None].expand_as(new)
        return cache.scatter(0, rows, new)
    slots = torch.arange(cache.shape[0])
    here = torch.logical_and(slots >= position, slots < position + count)[:, None, None]
    if tokens == 1:  # the same row wherever it goes
        return torch.where(here, new, cache)
    places = (slots[:, None] == (position + torch.arange(tokens))[None]).to(new.dtype)
    return torch.where(here, (places @ new.flatten(1)).reshape_as(cache), cache)


def visible(position: Tensor, tokens: int, capacity: int, context: int | None) -> Tensor:
    """Return which slots of a cache each of `tokens` tokens from `position` on may look at: itself and what is before.

    Parameters
    ----------
    position : torch.Tensor, shape (1,), int64
        Position of the first token.
    context : int or None
        How many positions a token sees, itself included; None for all.

    Returns
    -------
    torch.Tensor, shape (tokens, capacity), bool
    """
    distance = (position + torch.arange(tokens))[:, None] - torch.arange(capacity)[None]
    seen = distance >= 0
    return seen if context is None else torch.logical_and(seen, distance < context)


def attend(
    attention: StreamingMultiheadAttention,
    x: Tensor,
    cache: Tensor,
    position: Tensor,
    count: Tensor | int,
    write: Write,
) -> tuple[Tensor, Tensor]:
    """Run one attention over its cache.

    Parameters
    ----------
    x : torch.Tensor, shape (1, tokens, width)
        Normalised input.
    cache : torch.Tensor, shape (2, capacity, heads, channels)
        Keys and values.
    position, count, write
        See `written`.

    Returns
    -------
    tuple of torch.Tensor
        Output, (1, tokens, width), and the new cache.
    """
    tokens, capacity = x.shape[1], cache.shape[1]
    heads, channels = attention.num_kv_heads, attention.dim_per_head
    widths = [attention.attn_dim, heads * channels, heads * channels]
    q, k, v = (part.unflatten(1, (-1, channels)) for part in attention.in_proj(x)[0].split(widths, dim=1))
    turn = rotation(position + torch.arange(tokens), channels, attention.rope.max_period, x.dtype)
    keys = written(cache[0], rotate(k, *turn), position, count, write)
    values = written(cache[1], v, position, count, write)
    queries = rotate(q, *turn).transpose(0, 1)[None]
    shared = attention.num_heads // heads  # query heads to each head of the cache
    all_k, all_v = (
        part.transpose(0, 1)[:, None].expand(-1, shared, -1, -1).flatten(0, 1)[None] for part in (keys, values)
    )
    mask = visible(position, tokens, capacity, attention.context)[None, None]
    mixed = F.scaled_dot_product_attention(queries, all_k, all_v, mask)
    return attention.out_proj(mixed.transpose(1, 2).flatten(2)), torch.stack([keys, values])


def run(
    transformer: StreamingTransformer,
    x: Tensor,
    cache: Tensor,
    position: Tensor,
    count: Tensor | int,
    write: Write = "one_hot",
    attention: Callable[..., tuple[Tensor, Tensor]] = attend,
) -> tuple[Tensor, Tensor]:
    """Run a transformer on the tokens from `position` on.

    Parameters
    ----------
    x : torch.Tensor, shape (1, tokens, width)
        Embeddings.
    cache : torch.Tensor, shape (layers, 2, capacity, heads, channels)
        Keys and values of each layer.
    position, count, write
        See `written`.
    attention : callable
        `attend`, or what computes the same in another way.

    Returns
    -------
    tuple of torch.Tensor
        Output, (1, tokens, width), and the new cache.
    """
    caches = []
    for i, layer in enumerate(transformer.layers):
        update, new = attention(layer.self_attn, layer.norm1(x), cache[i], position, count, write)
        caches.append(new)
        x = layer._ff_block(x + layer.layer_scale_1(update))
    return x, torch.stack(caches)
