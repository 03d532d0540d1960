"""Convolutions, straight and transposed, along one to three axes."""

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor

from kokoro_nb.backends.mil import accumulation
from kokoro_nb.backends.mil.operators.registry import operator

Pads = list[tuple[int, int]]


def paddings(
    kind: str, pad: list[int] | None, sizes: Sequence[int], spans: Sequence[int], strides: Sequence[int]
) -> Pads:
    """Return how much to pad before and after each spatial axis.

    Parameters
    ----------
    kind : str
        ``valid``: nothing; ``custom``: as `pad` has it; ``same``: until the output has ``ceil(size / stride)``
        elements, the odd one behind; ``same_lower``: the odd one in front.
    pad : list of int or None
        Before and after the first axis, before and after the second, ...
    sizes, spans, strides : sequence of int
        Elements along each axis, elements that the window spans there, and its step.
    """
    if kind == "custom" and pad is not None:
        return list(zip(pad[::2], pad[1::2], strict=True))
    if kind == "valid":
        return [(0, 0)] * len(sizes)
    pads = []
    for size, span, stride in zip(sizes, spans, strides, strict=True):
        missing = max(0, (-(-size // stride) - 1) * stride + span - size)
        less, more = missing // 2, missing - missing // 2
        pads.append((more, less) if kind == "same_lower" else (less, more))
    return pads


def padded(x: Tensor, pads: Pads, value: float = 0.0) -> Tensor:
    """Return `x` with constants around its last axes; a negative number crops."""
    return F.pad(x, [number for pair in reversed(pads) for number in pair], value=value) if any(map(any, pads)) else x


def _biased(x: Tensor, bias: Tensor | None) -> Tensor:
    return x if bias is None else x + bias.to(x.dtype).reshape(-1, *[1] * (x.ndim - 2))


@operator("conv")
def conv(
    x: Tensor,
    weight: Tensor,
    strides: list[int],
    pad_type: str,
    dilations: list[int],
    groups: int,
    pad: list[int] | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """Convolve; the bias is added last."""
    spans = [(k - 1) * d + 1 for k, d in zip(weight.shape[2:], dilations, strict=True)]
    x = padded(x, paddings(pad_type, pad, x.shape[2:], spans, strides))
    return _biased(accumulation.convolution(x, weight, strides, dilations, groups), bias)


@operator("conv_transpose")
def conv_transpose(
    x: Tensor,
    weight: Tensor,
    strides: list[int],
    pad_type: str,
    dilations: list[int],
    groups: int,
    pad: list[int] | None = None,
    bias: Tensor | None = None,
    output_shape: list[int] | None = None,
) -> Tensor:
    """Convolve transposed, crop by the padding, and fill up or cut the end where an output shape is given."""
    full = accumulation.transposed_convolution(x, weight, strides, dilations, groups)
    sizes = x.shape[2:]
    wanted = [size * step for size, step in zip(sizes, strides, strict=True)]
    if pad_type == "same":
        surplus = [max(0, n - w) for n, w in zip(full.shape[2:], wanted, strict=True)]
        crops = [(number // 2, number - number // 2) for number in surplus]
    else:
        crops = paddings(pad_type, pad, sizes, sizes, strides)
        wanted = [n - before - after for n, (before, after) in zip(full.shape[2:], crops, strict=True)]
    if output_shape is not None:
        wanted = output_shape[2:]
    ends = [w + before - n for n, w, (before, _) in zip(full.shape[2:], wanted, crops, strict=True)]
    return _biased(padded(full, [(-before, end) for (before, _), end in zip(crops, ends, strict=True)]), bias)
