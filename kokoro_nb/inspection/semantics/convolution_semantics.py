"""Convolutions, transposed ones and average pooling, by torch, whose sums are as wide as what it is given."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from kokoro_nb.inspection.semantics.onnx_call import OnnxCall, meaning


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
def convolved(call: OnnxCall, x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None = None) -> np.ndarray:
    """Return the convolution, whatever the number of its axes."""
    import torch

    rank = x.ndim - 2
    if rank > 3:
        raise ValueError(f"a convolution over {rank} axes")
    before, behind = padding_of(call, x.shape[2:], weight.shape[2:])
    edges = [edge for pair in zip(reversed(before), reversed(behind), strict=True) for edge in pair]
    padded = torch.nn.functional.pad(torch.from_numpy(np.ascontiguousarray(x)), edges)
    result: np.ndarray = _by_torch(call, padded, weight, bias).numpy()
    return result


def _by_torch(call: OnnxCall, x: Any, weight: np.ndarray, bias: np.ndarray | None, transposed: bool = False) -> Any:
    """Return a convolution without padding, as a tensor of PyTorch."""
    import torch

    given: list[Any] = [None if one is None else torch.from_numpy(np.ascontiguousarray(one)) for one in (weight, bias)]
    none, ones = [0] * (x.ndim - 2), [1] * (x.ndim - 2)
    steps, apart = call.get("strides", ones), call.get("dilations", ones)
    return torch.convolution(x, given[0], given[1], steps, none, apart, transposed, none, call.get("group", 1))


@meaning("ConvTranspose")
def transposed(call: OnnxCall, x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None = None) -> np.ndarray:
    """Return the transposed convolution: computed whole, then cut by its padding."""
    import torch

    rank = x.ndim - 2
    strides, dilations = call.get("strides", [1] * rank), call.get("dilations", [1] * rank)
    extra = list(call.get("output_padding", [0] * rank))
    reach = [(k - 1) * d + 1 for k, d in zip(weight.shape[2:], dilations, strict=True)]
    full = [(size - 1) * s + r for size, s, r in zip(x.shape[2:], strides, reach, strict=True)]
    wanted = call.get("output_shape")
    automatic = call.get("auto_pad", "NOTSET")
    if wanted is None and automatic in ("SAME_UPPER", "SAME_LOWER"):
        wanted = [size * stride for size, stride in zip(x.shape[2:], strides, strict=True)]
    if wanted is not None:
        total = [f + e - w for f, e, w in zip(full, extra, wanted[-rank:], strict=True)]
        before, behind = _halves(total, automatic == "SAME_UPPER")
    else:
        before, behind = padding_of(call, x.shape[2:], weight.shape[2:])
    whole = _by_torch(call, torch.from_numpy(np.ascontiguousarray(x)), weight, None, transposed=True)
    edges = [edge for b, a, e in zip(before[::-1], behind[::-1], extra[::-1], strict=True) for edge in (-b, e - a)]
    result: np.ndarray = torch.nn.functional.pad(whole, edges).numpy()
    return result if bias is None else result + bias.reshape(1, -1, *([1] * rank))
