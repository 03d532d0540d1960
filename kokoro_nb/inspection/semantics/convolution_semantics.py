"""Convolutions and transposed ones by torch, whose sums are as wide as what it is given."""

from collections.abc import Sequence

import numpy as np
import torch

from kokoro_nb.inspection.semantics.onnx_call import OnnxCall, meaning
from kokoro_nb.inspection.value_types import Array, Input


def padding_of(call: OnnxCall, sizes: Sequence[int], kernel: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return the padding before and behind each spatial axis."""
    rank = len(sizes)
    strides, dilations = call.get("strides", [1] * rank), call.get("dilations", [1] * rank)
    automatic = call.get("auto_pad", "NOTSET")
    if automatic in ("NOTSET", ""):
        pads = call.get("pads", [0] * 2 * rank)
        return list(pads[:rank]), list(pads[rank:])
    if automatic == "VALID":
        return [0] * rank, [0] * rank
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    total = [
        max(0, (-(-size // stride) - 1) * stride + r - size)
        for size, stride, r in zip(sizes, strides, reach, strict=True)
    ]
    return _halves(total, automatic == "SAME_UPPER")


def _halves(total: Sequence[int], upper: bool) -> tuple[list[int], list[int]]:
    """Return what of each length is before and what behind; `upper`: of an odd one the larger part is behind."""
    before = [each // 2 if upper else each - each // 2 for each in total]
    return before, [each - one for each, one in zip(total, before, strict=True)]


@meaning("Conv")
def convolved(call: OnnxCall, x: Array, weight: Array, bias: Input = None) -> Array:
    """Return the convolution over one to three axes."""
    return _by_torch(call, _with_edges(x, *padding_of(call, x.shape[2:], weight.shape[2:])), weight, bias)


def _with_edges(x: Array, before: Sequence[int], behind: Sequence[int]) -> Array:
    """Return `x` with as many zeros before and behind each of its last axes, cut where they are negative."""
    edges = [edge for pair in zip(reversed(before), reversed(behind), strict=True) for edge in pair]
    return np.asarray(torch.nn.functional.pad(torch.from_numpy(np.ascontiguousarray(x)), edges))


def _by_torch(call: OnnxCall, x: Array, weight: Array, bias: Input, transposed: bool = False) -> Array:
    """Return a convolution without padding."""
    given = (None if one is None else torch.from_numpy(np.ascontiguousarray(one)) for one in (x, weight, bias))
    none, ones = [0] * (x.ndim - 2), [1] * (x.ndim - 2)
    steps, apart = call.get("strides", ones), call.get("dilations", ones)
    return np.asarray(torch.convolution(*given, steps, none, apart, transposed, none, call.get("group", 1)))


@meaning("ConvTranspose")
def transposed(call: OnnxCall, x: Array, weight: Array, bias: Input = None) -> Array:
    """Return the transposed convolution: computed whole, then cut by its padding."""
    rank, automatic = x.ndim - 2, call.get("auto_pad", "NOTSET")
    whole, extra = _by_torch(call, x, weight, None, transposed=True), call.get("output_padding", [0] * rank)
    wanted = call.get("output_shape")
    if wanted is None and automatic in ("SAME_UPPER", "SAME_LOWER"):
        wanted = np.multiply(x.shape[2:], call.get("strides", [1] * rank))
    if wanted is None:
        before, behind = padding_of(call, x.shape[2:], weight.shape[2:])
    else:
        before, behind = _halves([*np.add(whole.shape[2:], extra) - wanted[-rank:]], automatic == "SAME_UPPER")
    result = _with_edges(whole, np.negative(before), np.subtract(extra, behind))
    return result if bias is None else result + bias.reshape(1, -1, *([1] * rank))
