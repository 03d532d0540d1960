"""Convolutions and transposed ones by torch, whose sums are as wide as what it is given."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from kokoro_nb.backends.mil.operators.convolution import Pads, padded, paddings
from kokoro_nb.inspection.semantics.onnx_call import OnnxCall, meaning
from kokoro_nb.inspection.value_types import Array, Input

KINDS = {"SAME_UPPER": "same", "SAME_LOWER": "same_lower", "VALID": "valid"}
"""What MIL calls ONNX's kinds of padding."""


def _pads(call: OnnxCall, sizes: Sequence[int], kernel: Sequence[int]) -> Pads:
    """Return the padding before and behind each spatial axis."""
    rank = len(sizes)
    ones, given = [1] * rank, call.get("pads", [0] * 2 * rank)
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, call.get("dilations", ones), strict=True)]
    pairs = [edge for pair in zip(given[:rank], given[rank:], strict=True) for edge in pair]
    return paddings(KINDS.get(call.get("auto_pad"), "custom"), pairs, sizes, spans, call.get("strides", ones))


def _by_torch(call: OnnxCall, x: Any, weight: Array, bias: Input, transposed: bool = False) -> Any:
    """Return a convolution without padding, as a tensor of PyTorch."""
    w: Any
    w, b = (None if one is None else torch.from_numpy(np.ascontiguousarray(one)) for one in (weight, bias))
    none, ones = [0] * (x.ndim - 2), [1] * (x.ndim - 2)
    steps, apart = call.get("strides", ones), call.get("dilations", ones)
    return torch.convolution(x, w, b, steps, none, apart, transposed, none, call.get("group", 1))


@meaning("Conv")
def convolved(call: OnnxCall, x: Array, weight: Array, bias: Input = None) -> Array:
    """Return the convolution over one to three axes."""
    wide = padded(torch.from_numpy(np.ascontiguousarray(x)), _pads(call, x.shape[2:], weight.shape[2:]))
    return np.asarray(_by_torch(call, wide, weight, bias))


@meaning("ConvTranspose")
def transposed(call: OnnxCall, x: Array, weight: Array, bias: Input = None) -> Array:
    """Return the transposed convolution: computed whole, then cut by its padding."""
    sizes, rank, automatic = x.shape[2:], x.ndim - 2, call.get("auto_pad", "NOTSET")
    whole = _by_torch(call, torch.from_numpy(np.ascontiguousarray(x)), weight, None, transposed=True)
    wanted, extra = call.get("output_shape"), call.get("output_padding", [0] * rank)
    if wanted is None and automatic in ("SAME_UPPER", "SAME_LOWER"):
        wanted = np.multiply(sizes, call.get("strides", [1] * rank))
    pads: Any = _pads(call, sizes, weight.shape[2:])
    if wanted is not None:
        total = np.add(whole.shape[2:], extra) - wanted[-rank:]
        before = total // 2 if automatic == "SAME_UPPER" else total - total // 2  # of an odd one the larger part
        pads = zip(before, total - before, strict=True)
    ends = [(-before, more - behind) for (before, behind), more in zip(pads, extra, strict=True)]
    result = padded(whole, ends).numpy()
    return result if bias is None else result + bias.reshape(1, -1, *([1] * rank))
