"""Products of matrices."""

import math

import torch
from torch import Tensor

from kokoro_nb.backends.mil import accumulation
from kokoro_nb.backends.mil.operators.activation import softmax
from kokoro_nb.backends.mil.operators.registry import OperatorSite, operator
from kokoro_nb.errors import InputError


@operator("matmul")
def matmul(x: Tensor, y: Tensor, transpose_x: bool, transpose_y: bool) -> Tensor:
    """Multiply matrices, as NumPy broadcasts them, the last two axes of either exchanged first if requested."""
    x = x.transpose(-1, -2) if transpose_x and x.ndim > 1 else x
    y = y.transpose(-1, -2) if transpose_y and y.ndim > 1 else y
    return accumulation.matmul(x, y)


@operator("linear")
def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return x times the transposed weight; the bias is added last."""
    product = accumulation.matmul(x, weight.to(x.dtype).transpose(0, 1))
    return product if bias is None else product + bias.to(x.dtype)


@operator("einsum")
def einsum(site: OperatorSite, values: list[Tensor], equation: str) -> Tensor:
    """Multiply ``[..., c, h, w]`` with ``[..., w, h, u]`` to ``[..., c, h, u]``: the one sum that MIL has.

    Raises
    ------
    InputError
        For another equation.
    """
    letters = {letter: "abcdefgh"[i] for i, letter in enumerate(dict.fromkeys(c for c in equation if c.isalpha()))}
    plain = "".join(letters.get(letter, letter) for letter in equation.replace(" ", ""))
    if plain not in ("abcd,adce->abce", "abc,cbd->abd"):
        raise InputError(
            f"einsum '{site.name}' has the equation {equation}, and MIL knows nchw,nwhu->nchu and chw,whr->chr alone; "
            "write the product with matmul."
        )
    x, y = (value.transpose(-2, -3) for value in values)
    return accumulation.matmul(x, y).transpose(-2, -3)


@operator("scaled_dot_product_attention")
def scaled_dot_product_attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None) -> Tensor:
    """Return softmax(query key' / sqrt(width) + mask) value; where a mask of truth values is false, it is -inf."""
    scores = accumulation.matmul(query, key.transpose(-1, -2)) / math.sqrt(query.shape[-1])
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        scores = torch.where(attn_mask, scores, -torch.inf)
    elif attn_mask is not None:
        scores = scores + attn_mask.to(scores.dtype)
    return accumulation.matmul(softmax(scores, -1), value)
