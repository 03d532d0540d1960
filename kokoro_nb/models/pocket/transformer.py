"""The streaming transformers of PocketTTS with their caches as tensors that go in and come out.

The package keeps a cache that it fills with NaN and writes to in place, and reads the part that is written, whose
length is a number outside of the graph. Here the position is a tensor, the whole cache is read every time, and a mask
hides what is not written yet; so it starts at zero, for what a mask hides from a softmax still enters its product.
"""

import math
from typing import TypeAlias

import torch
import torch.nn.functional as F
from pocket_tts import TTSModel
from pocket_tts.modules.attention import StreamingMultiheadAttention
from pocket_tts.modules.conv import StreamingConv1d, StreamingConvTranspose1d
from pocket_tts.modules.stateful_module import ModelState
from pocket_tts.modules.transformer import StreamingTransformer
from torch import Tensor

from kokoro_nb.errors import InputError


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


def written(cache: Tensor, new: Tensor, position: Tensor, count: Tensor | int) -> Tensor:
    """Return `cache` with `new` at `position`: by a product with a matrix of zeros and ones, which every runtime has.

    Parameters
    ----------
    cache : torch.Tensor, shape (capacity, heads, channels)
        Keys or values.
    new : torch.Tensor, shape (tokens, heads, channels)
        What to write.
    position : torch.Tensor, shape (1,), int64
        Where the first token goes.
    count : torch.Tensor of shape (1,) or int
        How many tokens are to be written, from the first; what does not fit is not.

    Returns
    -------
    torch.Tensor, shape (capacity, heads, channels)

    Examples
    --------
    >>> written(torch.zeros(4, 1, 1), torch.ones(2, 1, 1), torch.tensor([1]), 2).flatten().tolist()
    [0.0, 1.0, 1.0, 0.0]
    """
    tokens = new.shape[0]
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
    attention: StreamingMultiheadAttention, x: Tensor, cache: Tensor, position: Tensor, count: Tensor | int
) -> tuple[Tensor, Tensor]:
    """Run one attention over its cache.

    Parameters
    ----------
    x : torch.Tensor, shape (1, tokens, width)
        Normalised input.
    cache : torch.Tensor, shape (2, capacity, heads, channels)
        Keys and values.
    position, count
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
    keys = written(cache[0], rotate(k, *turn), position, count)
    values = written(cache[1], v, position, count)
    queries = rotate(q, *turn).transpose(0, 1)[None]
    shared = attention.num_heads // heads  # query heads to each head of the cache
    all_k, all_v = (
        part.transpose(0, 1)[:, None].expand(-1, shared, -1, -1).flatten(0, 1)[None] for part in (keys, values)
    )
    mask = visible(position, tokens, capacity, attention.context)[None, None]
    mixed = F.scaled_dot_product_attention(queries, all_k, all_v, mask)
    return attention.out_proj(mixed.transpose(1, 2).flatten(2)), torch.stack([keys, values])


def tanh_gelu(x: Tensor) -> Tensor:
    """Return gelu by tanh, written out: XNNPACK and Core ML take the operator for gelu by erf.

    ``x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))``: Hendrycks and Gimpel 2016, equation 3.
    """
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))


def run(
    transformer: StreamingTransformer, x: Tensor, cache: Tensor, position: Tensor, count: Tensor | int
) -> tuple[Tensor, Tensor]:
    """Run a transformer on the tokens from `position` on.

    Parameters
    ----------
    x : torch.Tensor, shape (1, tokens, width)
        Embeddings.
    cache : torch.Tensor, shape (layers, 2, capacity, heads, channels)
        Keys and values of each layer.
    position, count
        See `written`.

    Returns
    -------
    tuple of torch.Tensor
        Output, (1, tokens, width), and the new cache.
    """
    caches = []
    for i, layer in enumerate(transformer.layers):
        update, new = attend(layer.self_attn, layer.norm1(x), cache[i], position, count)
        caches.append(new)
        x = x + layer.layer_scale_1(update)
        x = x + layer.layer_scale_2(layer.linear2(tanh_gelu(layer.linear1(layer.norm2(x)))))
    return x, torch.stack(caches)


STREAMS = ("upsample", "conv_in", "up_0", "res_0", "up_1", "res_1", "up_2", "res_2", "conv_out")
Streaming: TypeAlias = StreamingConv1d | StreamingConvTranspose1d


def flow_lm_state(model: TTSModel, capacity: int, package: ModelState | None = None) -> dict[str, Tensor]:
    """Return the state of the language model before the first token, or after what the package has read.

    Parameters
    ----------
    capacity : int
        Positions that there is room for: voice, text and frames together. What goes beyond is lost silently, for
        a static graph raises nothing.
    package : dict, optional
        The package's state of one utterance, from `TTSModel.get_state_for_audio_prompt` for one, to go on from.

    Returns
    -------
    dict
        ``cache``, (layers, 2, capacity, heads, channels) float32, zero where nothing is written; ``position``, (1,)
        int64.
    """
    return _attention_state(model.flow_lm.transformer, capacity, package)


def mimi_state(model: TTSModel, capacity: int, package: ModelState | None = None) -> dict[str, Tensor]:
    """Return the state of Mimi's decoder before the first frame, or after those that the package has decoded.

    Parameters
    ----------
    capacity : int
        Positions of its transformer that there is room for: 16 to a frame. What goes beyond is lost silently.
    package : dict, optional
        The package's state to go on from.

    Returns
    -------
    dict
        ``position`` and ``cache`` as in `flow_lm_state`; and what each convolution carries over, by name: the last
        inputs of one, the samples that a transposed one has not finished, (1, channels, length) float32 each.

    Raises
    ------
    InputError
        If the decoder is of another build: see `streams`.
    """
    state = _attention_state(model.mimi.decoder_transformer.transformer, capacity, package)
    carried = {name: _carried(part, package) for name, part in streams(model).items()}
    return {"position": state["position"], "cache": state["cache"], **carried}


def streams(model: TTSModel) -> dict[str, Streaming]:
    """Return the convolutions of Mimi's decoder that keep something between frames, in order, by name of their stream.

    Raises
    ------
    InputError
        If the decoder is not built like those of all the package's configurations: three upsamplings with one residual
        block each, padded with zeros.
    """
    upsample = [model.mimi.upsample.convtr] if hasattr(model.mimi, "upsample") else []
    found = [*upsample, *(part for part in model.mimi.decoder.modules() if isinstance(part, Streaming))]
    kept = [part for part in found if _overlap(part) > 0]
    zeros = all(part.pad_mode == "constant" for part in kept if isinstance(part, StreamingConv1d))
    if len(kept) != len(STREAMS) or len(model.mimi.decoder.model) != 12 or not zeros:
        raise InputError(
            f"Mimi's decoder keeps the ends of {len(kept)} convolutions, the step knows decoders with {len(STREAMS)}, "
            "padded with zeros; use three ratios, one residual layer and the pad mode 'constant'."
        )
    return dict(zip(STREAMS, kept, strict=True))


def _attention_state(transformer: StreamingTransformer, capacity: int, package: ModelState | None) -> dict[str, Tensor]:
    """Return caches and position of a transformer."""
    attentions = [part for part in transformer.modules() if isinstance(part, StreamingMultiheadAttention)]
    heads, channels = attentions[0].num_kv_heads, attentions[0].dim_per_head
    cache = torch.zeros(len(attentions), 2, capacity, heads, channels)
    if package is None:
        return {"cache": cache, "position": torch.zeros(1, dtype=torch.int64)}
    kept = [attention.get_state(package) for attention in attentions]
    position = int(kept[0]["offset"][0])
    for mine, theirs in zip(cache, kept, strict=True):
        mine[:, :position] = theirs["cache"][:, 0, :position]  # NaN behind it
    return {"cache": cache, "position": torch.tensor([position])}


def _carried(part: Streaming, package: ModelState | None) -> Tensor:
    """Return what a convolution carries over."""
    transposed = isinstance(part, StreamingConvTranspose1d)
    if package is not None:
        return part.get_state(package)["partial" if transposed else "previous"].clone()
    channels = part.convtr.out_channels if isinstance(part, StreamingConvTranspose1d) else part.conv.in_channels
    return torch.zeros(1, channels, _overlap(part))


def _overlap(part: Streaming) -> int:
    """Return how many samples a convolution carries over."""
    within = part.conv if isinstance(part, StreamingConv1d) else part.convtr
    return (within.kernel_size[0] - 1) * within.dilation[0] + 1 - within.stride[0]
