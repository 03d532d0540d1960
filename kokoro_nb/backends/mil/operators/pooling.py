"""Pooling: the mean, the largest or the root of the squares within a window."""

import torch
from torch import Tensor

from kokoro_nb.backends.mil import accumulation
from kokoro_nb.backends.mil.operators.convolution import Pads, padded, paddings
from kokoro_nb.backends.mil.operators.registry import Site, flags, ints, operator


def _windows(x: Tensor, kernel: list[int], strides: list[int]) -> Tensor:
    """Return a view of every window of the last axes, the elements of a window along axes of their own at the end."""
    for i, (size, stride) in enumerate(zip(kernel, strides, strict=True)):
        x = x.unfold(2 + i, size, stride)
    return x


def _overhangs(x: Tensor, pads: Pads, kernel: list[int], strides: list[int], ceil_mode: bool) -> Pads:
    """Return what the last window needs behind the padding where the size of the output is rounded up."""
    extra = []
    for size, (before, after), k, s in zip(x.shape[2:], pads, kernel, strides, strict=True):
        steps = -(-(size + before + after - k) // s) if ceil_mode else (size + before + after - k) // s
        if ceil_mode and steps * s >= size + before and before + after > 0:
            steps -= 1  # a window that lies in the padding alone does not count
        extra.append((0, max(0, steps * s + k - size - before - after)))
    return extra


def _pooled(
    x: Tensor, kernel_sizes: Tensor, strides: Tensor, pad_type: str, pad: Tensor | None, ceil_mode: Tensor, fill: float
) -> tuple[Tensor, Pads, Pads]:
    kernel, steps = ints(kernel_sizes), ints(strides)
    pads = paddings(pad_type, pad, x.shape[2:], kernel, steps)
    overhangs = _overhangs(x, pads, kernel, steps, bool(ceil_mode))
    return _windows(padded(padded(x, pads, fill), overhangs, fill), kernel, steps), pads, overhangs


@operator("max_pool")
def max_pool(
    site: Site,
    x: Tensor,
    kernel_sizes: Tensor,
    strides: Tensor,
    pad_type: str,
    ceil_mode: Tensor,
    pad: Tensor | None = None,
) -> Tensor:
    """Return the largest element of each window."""
    windows, _, _ = _pooled(x, kernel_sizes, strides, pad_type, pad, ceil_mode, -torch.inf)
    return torch.amax(windows, dim=_window_axes(x))


@operator("l2_pool")
def l2_pool(
    site: Site,
    x: Tensor,
    kernel_sizes: Tensor,
    strides: Tensor,
    pad_type: str,
    ceil_mode: Tensor,
    pad: Tensor | None = None,
) -> Tensor:
    """Return the root of the sum of the squares of each window."""
    windows, _, _ = _pooled(x * x, kernel_sizes, strides, pad_type, pad, ceil_mode, 0.0)
    return torch.sqrt(accumulation.total(windows, _window_axes(x)))


@operator("avg_pool")
def avg_pool(
    site: Site,
    x: Tensor,
    kernel_sizes: Tensor,
    strides: Tensor,
    pad_type: str,
    ceil_mode: Tensor,
    exclude_padding_from_average: Tensor,
    pad: Tensor | None = None,
) -> Tensor:
    """Return the sum of each window divided by the number of its elements, those of the padding among them or not."""
    windows, pads, overhangs = _pooled(x, kernel_sizes, strides, pad_type, pad, ceil_mode, 0.0)
    ones = torch.ones(1, 1, *x.shape[2:])
    (excluded,) = flags(exclude_padding_from_average, 1)
    counted = padded(padded(ones, pads, 0.0 if excluded else 1.0), overhangs)
    number = _windows(counted, ints(kernel_sizes), ints(strides)).sum(dim=_window_axes(x))
    return accumulation.total(windows, _window_axes(x)) / number.to(x.dtype)


def _window_axes(x: Tensor) -> tuple[int, ...]:
    return tuple(range(x.ndim, 2 * x.ndim - 2))
