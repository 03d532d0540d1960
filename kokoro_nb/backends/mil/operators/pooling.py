"""Pooling: the mean, the largest or the root of the squares within a window."""

import torch
from torch import Tensor

from kokoro_nb.backends.mil import accumulation
from kokoro_nb.backends.mil.operators.convolution import Pads, padded, paddings
from kokoro_nb.backends.mil.operators.registry import operator


def _windows(x: Tensor, kernel: list[int], strides: list[int]) -> tuple[Tensor, tuple[int, ...]]:
    """Return a view of every window of the last axes, and the axes at the end along which its elements are."""
    axes = tuple(range(x.ndim, 2 * x.ndim - 2))
    for i, (size, stride) in enumerate(zip(kernel, strides, strict=True)):
        x = x.unfold(2 + i, size, stride)
    return x, axes


def _overhangs(x: Tensor, pads: Pads, kernel: list[int], strides: list[int], ceil_mode: bool) -> Pads:
    """Return what the last window needs behind the padding where the size of the output is rounded up."""
    extra = []
    for size, (before, after), k, s in zip(x.shape[2:], pads, kernel, strides, strict=True):
        steps = -(-(size + before + after - k) // s) if ceil_mode else (size + before + after - k) // s
        if ceil_mode and steps * s >= size + before and before + after > 0:
            steps -= 1  # a window that lies in the padding alone does not count
        extra.append((0, max(0, steps * s + k - size - before - after)))
    return extra


def _both_pads(
    x: Tensor, kernel: list[int], strides: list[int], pad_type: str, ceil_mode: bool, pad: list[int] | None
) -> tuple[Pads, Pads]:
    pads = paddings(pad_type, pad, x.shape[2:], kernel, strides)
    return pads, _overhangs(x, pads, kernel, strides, ceil_mode)


@operator("max_pool")
def max_pool(
    x: Tensor, kernel_sizes: list[int], strides: list[int], pad_type: str, ceil_mode: bool, pad: list[int] | None = None
) -> Tensor:
    """Return the largest element of each window."""
    for pads in _both_pads(x, kernel_sizes, strides, pad_type, ceil_mode, pad):
        x = padded(x, pads, -torch.inf)
    windows, axes = _windows(x, kernel_sizes, strides)
    return torch.amax(windows, dim=axes)


@operator("l2_pool")
def l2_pool(
    x: Tensor, kernel_sizes: list[int], strides: list[int], pad_type: str, ceil_mode: bool, pad: list[int] | None = None
) -> Tensor:
    """Return the root of the sum of the squares of each window."""
    squares = x * x
    for pads in _both_pads(x, kernel_sizes, strides, pad_type, ceil_mode, pad):
        squares = padded(squares, pads)
    return torch.sqrt(accumulation.total(*_windows(squares, kernel_sizes, strides)))


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
