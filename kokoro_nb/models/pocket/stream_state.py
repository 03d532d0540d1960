"""What PocketTTS keeps between steps, as tensors by name: empty, or taken over from the package's own state."""

from collections.abc import Sequence
from typing import TypeAlias

import torch
from pocket_tts import TTSModel
from pocket_tts.modules.attention import StreamingMultiheadAttention
from pocket_tts.modules.conv import StreamingConv1d, StreamingConvTranspose1d
from pocket_tts.modules.stateful_module import ModelState
from pocket_tts.modules.transformer import StreamingTransformer
from torch import Tensor

from kokoro_nb.errors import InputError

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
        The package's state, from `TTSModel.get_state_for_audio_prompt` for one, to go on from.

    Returns
    -------
    dict
        ``cache``, (layers, 2, capacity, heads, channels) float32, zero where nothing is written; ``position``, (1,)
        int64.

    Raises
    ------
    InputError
        If there is no room, or not enough for what is written.
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
        If there is no room, or not enough for what is written, or the decoder is of another build: see `streams`.
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
    if capacity < 1:
        raise InputError(f"A cache of {capacity} positions holds nothing; give a whole number above 0.")
    heads, channels = attentions[0].num_kv_heads, attentions[0].dim_per_head
    cache = torch.zeros(len(attentions), 2, capacity, heads, channels)
    if package is None:
        return {"cache": cache, "position": torch.zeros(1, dtype=torch.int64)}
    kept = [attention.get_state(package) for attention in attentions]
    position = _position(kept, capacity)
    for mine, theirs in zip(cache, kept, strict=True):
        mine[:, :position] = theirs["cache"][:, 0, :position]  # NaN behind it
    return {"cache": cache, "position": torch.tensor([position])}


def _position(kept: Sequence[dict[str, Tensor]], capacity: int) -> int:
    """Return how many positions the package has written."""
    offsets = torch.cat([state["offset"] for state in kept])
    position = int(offsets[0])
    if len(set(offsets.tolist())) > 1 or any(bool(state["pad"].any()) for state in kept if "pad" in state):
        raise InputError("The state is of several utterances of unequal length; give the state of one.")
    if position > capacity:
        raise InputError(f"The state holds {position} positions, the cache has room for {capacity}; make it larger.")
    return position


def _carried(part: Streaming, package: ModelState | None) -> Tensor:
    """Return what a convolution carries over."""
    transposed = isinstance(part, StreamingConvTranspose1d)
    if package is not None:
        return part.get_state(package)["partial" if transposed else "previous"].clone()
    channels = part.convtr.out_channels if isinstance(part, StreamingConvTranspose1d) else part.conv.in_channels
    return torch.zeros(1, channels, _overlap(part))


def _overlap(part: Streaming) -> int:
    """Return how many samples a convolution carries over."""
    kernel = part._effective_kernel_size if isinstance(part, StreamingConv1d) else part._kernel_size
    return kernel - part._stride
