"""Sums, norms and products in other forms: in blocks, in two passes, in a wider dtype."""

from math import isqrt, prod
from typing import Any

import torch

from kokoro_nb.locate.forms import OtherForm, axes_of, is_float, is_tensor, with_last

LARGEST = 2**24  # products that are written out for a sum


def _normed(x: Any, axes: list[int], eps: float) -> Any:
    centred = x - x.mean(axes, True)
    return centred * ((centred * centred).mean(axes, True) + eps).rsqrt()


def _affine(x: Any, weight: Any, bias: Any, shape: list[int]) -> Any:
    x = x if weight is None else x * weight.view(shape)
    return x if bias is None else x + bias.view(shape)


def _instance_norm(input: Any, weight: Any, bias: Any, use_input_stats: bool, eps: float, **_: Any) -> Any:
    return _group_norm(input, input.shape[1], weight, bias, eps) if use_input_stats else None


def _group_norm(input: Any, num_groups: int, weight: Any, bias: Any, eps: float, **_: Any) -> Any:
    shape = input.shape
    grouped = input.reshape(shape[0], num_groups, prod(shape[1:]) // num_groups)
    return _affine(_normed(grouped, [2], eps).reshape(shape), weight, bias, [1, -1, *[1] * (len(shape) - 2)])


def _layer_norm(input: Any, normalized_shape: list[int], weight: Any, bias: Any, eps: float, **_: Any) -> Any:
    axes = list(range(input.ndim - len(normalized_shape), input.ndim))
    return _affine(_normed(input, axes, eps), weight, bias, normalized_shape)


def _variance(self: Any, dim: Any, correction: Any, keepdim: bool, **_: Any) -> Any:
    axes = axes_of(self, dim)
    centred = self - self.mean(axes, True)
    count = prod(self.shape[axis] for axis in axes) - (1 if correction is None else correction)
    return (centred * centred).sum(axes, keepdim) / float(count)


def _rms_norm(input: Any, normalized_shape: list[int], weight: Any, eps: float | None, **_: Any) -> Any:
    axes = list(range(input.ndim - len(normalized_shape), input.ndim))
    mean = _in_blocks(input * input, axes) / prod(normalized_shape)
    mean = mean.view(*input.shape[: axes[0]], *[1] * len(axes))
    eps = torch.finfo(input.dtype).eps if eps is None else eps
    return _affine(input * (mean + eps).rsqrt(), weight, None, normalized_shape)


def _sum(self: Any, result: Any, op: Any, dim: Any = None, **_: Any) -> Any:
    if not is_float(self) or not self.ndim:
        return None
    total = _in_blocks(self.to(result.dtype), axes_of(self, dim)).reshape(result.shape)
    return total / (self.numel() / result.numel()) if "mean" in str(op) else total


def _in_blocks(x: Any, axes: list[int]) -> Any:
    """Return the sum over axes: those of blocks, and then that of these."""
    rows = with_last(x, axes)
    size = max(1, isqrt(rows.shape[-1]))
    rows = torch.constant_pad_nd(rows, [0, -rows.shape[-1] % size])
    return rows.reshape(*rows.shape[:-1], -1, size).sum(-1).sum(-1)


def _running_sum(self: Any, dim: int, **_: Any) -> Any:
    """Return running sums within blocks, and the sum of all blocks before each."""
    if not self.ndim:
        return None
    axis, shape = dim % self.ndim, list(self.shape)
    size = max(1, isqrt(shape[axis]))
    padded = torch.constant_pad_nd(self, [*[0, 0] * (self.ndim - 1 - axis), 0, -shape[axis] % size])
    inside = padded.reshape(*shape[:axis], -1, size, *shape[axis + 1 :]).cumsum(axis + 1)
    totals = inside.narrow(axis + 1, size - 1, 1)
    whole = inside + (totals.cumsum(axis) - totals)
    return whole.reshape(padded.shape).narrow(axis, 0, shape[axis])


def _cast_first(self: Any, dim: int, op: Any, result: Any, **_: Any) -> Any:
    return None if self.dtype == result.dtype else op(self.to(result.dtype), dim)


def _product(op: Any, result: Any, **given: Any) -> Any:
    """Return a product of two matrices: of float16 in float32, of float64 as a sum of products."""
    if result.dtype in (torch.float16, torch.bfloat16):
        return op(*(one.float() for one in given.values() if is_tensor(one))).to(result.dtype)
    a, b, bias = ([one for one in given.values() if is_tensor(one)] + [None])[:3]
    if result.dtype != torch.float64 or min(a.ndim, b.ndim) < 2 or result.numel() * a.shape[-1] > LARGEST:
        return None
    b = b.transpose(-2, -1) if "linear" in str(op) else b
    total = (a.unsqueeze(-1) * b.unsqueeze(-3)).sum(-2)
    return total if bias is None else total + bias


_CAST = OtherForm("one dtype first", "the numbers are cast to the dtype of the result first", _cast_first)
_TWO_PASS = "the mean is subtracted first, then the squares are averaged"
_BLOCKS = OtherForm("sums in blocks", "sums of blocks are added, and not all numbers one by one", _sum)
_PRODUCT = OtherForm(
    "a product in its dtype", "float16 matrices are multiplied in float32, float64 ones by sums of products", _product
)
RUNNING = OtherForm("a running sum in blocks", "running sums of blocks, and the sums of the blocks", _running_sum)
FORMS: dict[str, tuple[OtherForm, ...]] = {
    "instance_norm": (OtherForm("two-pass norm", _TWO_PASS, _instance_norm),),
    "group_norm": (OtherForm("two-pass norm", _TWO_PASS, _group_norm),),
    "layer_norm": (OtherForm("two-pass norm", _TWO_PASS, _layer_norm),),
    "rms_norm": (OtherForm("RMS in blocks", "the squares are summed in blocks, not one by one", _rms_norm),),
    "var": (OtherForm("two-pass variance", _TWO_PASS, _variance),),
    "cumsum": (_CAST, RUNNING),
    "cumprod": (_CAST,),
    **dict.fromkeys(("sum", "mean"), (_BLOCKS,)),
    **dict.fromkeys(("matmul", "mm", "bmm", "linear"), (_PRODUCT,)),
}
