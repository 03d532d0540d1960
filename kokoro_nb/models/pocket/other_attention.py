"""The conditioning step with attention written as a port first had it: equal in exact arithmetic, other operators."""

import torch
from pocket_tts import TTSModel
from pocket_tts.modules.attention import StreamingMultiheadAttention
from torch import Tensor, nn

from kokoro_nb.errors import InputError
from kokoro_nb.models.pocket.transformer import Write, rotate, run, visible, written

HIDDEN = -1e9  # what is added to scores that are not to be seen


class OtherConditioningStep(nn.Module):
    """Read one embedding into the cache.

    Queries, keys and values by ``chunk`` and ``view``, the angles as ``1 / 10000^(2 i / D)``, and a softmax written out
    over scores to which a float mask adds -1e9: what the trial log has of its ninth trial.

    Parameters
    ----------
    model : pocket_tts.TTSModel
        Its transformer is shared, not copied.

    Raises
    ------
    InputError
        If heads share keys and values: ``chunk`` cannot tell them apart then.
    """

    output_names = ("cache", "position")

    def __init__(self, model: TTSModel):
        super().__init__()
        self.transformer = model.flow_lm.transformer
        first = self.transformer.layers[0].self_attn
        if first.num_kv_heads != first.num_heads:
            raise InputError("Heads of this model share keys and values, this step is for one pair a head.")

    def forward(self, embedding: Tensor, cache: Tensor, position: Tensor) -> tuple[Tensor, Tensor]:
        """Read `embedding`, (1, 1, width); state in and out as in `flow_lm.ConditioningBackbone.forward`."""
        _, cache = run(self.transformer, embedding, cache, position, 1, attention=_attend)
        return cache, position + 1


def _attend(
    attention: StreamingMultiheadAttention, x: Tensor, cache: Tensor, position: Tensor, count: int, write: Write
) -> tuple[Tensor, Tensor]:
    heads, channels = attention.num_heads, attention.dim_per_head
    q, k, v = (part.view(1, heads, channels) for part in attention.in_proj(x).chunk(3, dim=-1))
    slowness = attention.rope.max_period ** (torch.arange(0, channels, 2, dtype=x.dtype) / channels)
    angles = position.to(x.dtype)[:, None, None] * (1.0 / slowness)
    turn = torch.cos(angles), torch.sin(angles)
    keys = written(cache[0], rotate(k, *turn), position, count, write)
    values = written(cache[1], v, position, count, write)
    scores = torch.einsum("qhd,khd->hqk", rotate(q, *turn), keys) / channels**0.5
    unseen = torch.logical_not(visible(position, 1, cache.shape[1], attention.context)).to(x.dtype)
    weights = torch.softmax(scores + HIDDEN * unseen, dim=-1)
    mixed = torch.einsum("hqk,khd->qhd", weights, values).reshape(1, 1, heads * channels)
    return attention.out_proj(mixed), torch.stack([keys, values])
