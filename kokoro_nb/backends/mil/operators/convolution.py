"""Convolutions, straight and transposed, along one to three axes."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from kokoro_nb.backends.mil import accumulation
from kokoro_nb.backends.mil.operators.registry import OperatorSite, operator

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


@operator("conv", "conv_transpose")
def convolved(
    site: OperatorSite,
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
    """Convolve, the bias added last; transposed, what comes out is cropped by the padding.

    Then the end is filled up or cut where an output shape is given.
    """
    sizes = x.shape[2:]
    if site.type == "conv":
        spans = [(k - 1) * d + 1 for k, d in zip(weight.shape[2:], dilations, strict=True)]
        x = padded(x, paddings(pad_type, pad, sizes, spans, strides))
        x = accumulation.convolution(x, weight, strides, dilations, groups)
    else:
        full = accumulation.convolution(x, weight, strides, dilations, groups, transposed=True)
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
        x = padded(full, [(-before, end) for (before, _), end in zip(crops, ends, strict=True)])
    return x if bias is None else x + bias.to(x.dtype).reshape(-1, *[1] * (x.ndim - 2))


def _windows(x: Tensor, kernel: list[int], strides: list[int]) -> tuple[Tensor, tuple[int, ...]]:
    """Return a view of every window of the last axes, and the axes at the end along which its elements are."""
    axes = tuple(range(x.ndim, 2 * x.ndim - 2))
    for i, (size, stride) in enumerate(zip(kernel, strides, strict=True)):
        x = x.unfold(2 + i, size, stride)
    return x, axes


def _both_pads(
    x: Tensor, kernel: list[int], strides: list[int], pad_type: str, ceil_mode: bool, pad: list[int] | None
) -> tuple[Pads, Pads]:
    """Return the padding, and what the last window needs behind it where the size of the output is rounded up."""
    pads, extra = paddings(pad_type, pad, x.shape[2:], kernel, strides), []
    for size, (before, after), k, s in zip(x.shape[2:], pads, kernel, strides, strict=True):
        steps = -(-(size + before + after - k) // s) if ceil_mode else (size + before + after - k) // s
        if ceil_mode and steps * s >= size + before and before + after > 0:
            steps -= 1  # a window that lies in the padding alone does not count
        extra.append((0, max(0, steps * s + k - size - before - after)))
    return pads, extra


@operator("max_pool")
def max_pool(
    x: Tensor, kernel_sizes: list[int], strides: list[int], pad_type: str, ceil_mode: bool, pad: list[int] | None = None
) -> Tensor:
    """Return the largest element of each window."""
    for pads in _both_pads(x, kernel_sizes, strides, pad_type, ceil_mode, pad):
        x = padded(x, pads, -torch.inf)
    windows, axes = _windows(x, kernel_sizes, strides)
    return torch.amax(windows, dim=axes)


@operator("avg_pool")
def avg_pool(
    x: Tensor,
    kernel_sizes: list[int],
    strides: list[int],
    pad_type: str,
    ceil_mode: bool,
    exclude_padding_from_average: bool,
    pad: list[int] | None = None,
) -> Tensor:
    """Return the sum of each window divided by the number of its elements, those of the padding among them or not."""
    pads, overhangs = _both_pads(x, kernel_sizes, strides, pad_type, ceil_mode, pad)
    counted = padded(torch.ones(1, 1, *x.shape[2:]), pads, 0.0 if exclude_padding_from_average else 1.0)
    sums = accumulation.total(*_windows(padded(padded(x, pads), overhangs), kernel_sizes, strides))
    ones, axes = _windows(padded(counted, overhangs), kernel_sizes, strides)
    return sums / ones.sum(dim=axes).to(x.dtype)
