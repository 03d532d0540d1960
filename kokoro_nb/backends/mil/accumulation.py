"""Sums of many terms, in the dtype of the terms.

float32 and float64 are left to torch. float16 means strict arithmetic: every product and every partial sum is rounded
to float16, in the order documented at each function. torch's own float16 sums accumulate in float32 and are not used.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor


def total(x: Tensor, axes: Sequence[int], keep: bool = False) -> Tensor:
    """Sum `x` over `axes`; float16: one term after the other, the last of the axes running fastest."""
    return x.sum(dim=tuple(axes), keepdim=keep) if x.dtype != torch.float16 else _folded(torch.add, 0, x, axes, keep)


def multiplied(x: Tensor, axes: Sequence[int], keep: bool = False) -> Tensor:
    """Multiply the elements of `x` over `axes`; float16: as `total`."""
    return _folded(torch.mul, 1, x, axes, keep)


def mean(x: Tensor, axes: Sequence[int], keep: bool = False) -> Tensor:
    """Return `total` divided by the number of terms."""
    return total(x, axes, keep) / prod(x.shape[axis] for axis in axes)


def running(x: Tensor, axis: int) -> Tensor:
    """Return the running sum along `axis`, one term after the other in the dtype of `x`.

    NumPy does that in any dtype, where torch accumulates float32 in float64 on a CPU.
    """
    return torch.from_numpy(np.cumsum(x.numpy(), axis=axis, dtype=x.numpy().dtype))


def matmul(x: Tensor, y: Tensor) -> Tensor:
    """Multiply matrices, as NumPy broadcasts them; float16: by the index that is summed over, from 0 up."""
    if torch.float16 not in (x.dtype, y.dtype):
        return torch.matmul(x, y)
    left = x.half() if x.ndim > 1 else x.half()[None, :]
    right = y.half() if y.ndim > 1 else y.half()[:, None]
    batch = torch.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    result = torch.zeros(*batch, left.shape[-2], right.shape[-1], dtype=torch.float16)
    term = torch.empty_like(result)
    for k in range(left.shape[-1]):
        torch.mul(left[..., :, k : k + 1], right[..., k : k + 1, :], out=term)
        result += term
    result = result if x.ndim > 1 else result.squeeze(-2)
    return result if y.ndim > 1 else result.squeeze(-1)


def convolution(
    x: Tensor, weight: Tensor, strides: Sequence[int], dilations: Sequence[int], groups: int, transposed: bool = False
) -> Tensor:
    """Convolve `x`, already padded, without a bias; float16: by input channel, within it by tap of the kernel.

    Parameters
    ----------
    x : torch.Tensor, shape (batch, channels in, *spatial)
        Signal.
    weight : torch.Tensor, shape (channels out, channels in / groups, *kernel)
        Kernel; transposed of the shape (channels in, channels out / groups, *kernel).
    strides, dilations : sequence of int
        One for each spatial axis.
    groups : int
        Divides both numbers of channels.
    transposed : bool
        Convolve transposed, uncropped.

    Returns
    -------
    torch.Tensor, shape (batch, channels out, *spatial out)
        Transposed, with ``(n - 1) * stride + (kernel - 1) * dilation + 1`` elements along each spatial axis.
    """
    kernel, counts = weight.shape[2:], x.shape[2:]
    if x.dtype != torch.float16:
        none = [0] * len(kernel)
        return torch.convolution(x, weight.to(x.dtype), None, strides, none, dilations, transposed, none, groups)
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    along = zip(counts, spans, strides, strict=True)
    sizes = [(n - 1) * s + span if transposed else (n - span) // s + 1 for n, span, s in along]
    x = x.reshape(x.shape[0], groups, 1, -1, *counts)
    weight = weight.half().reshape(1, groups, -1, weight.shape[1], prod(kernel), *[1] * len(sizes))
    weight = weight.transpose(2, 3) if transposed else weight
    result = torch.zeros(x.shape[0], groups, weight.shape[2], *sizes, dtype=torch.float16)
    term = torch.empty_like(result)
    for channel in range(weight.shape[3]):
        for number, tap in enumerate(np.ndindex(*kernel)):
            signal, factor = x[:, :, :, channel], weight[:, :, :, channel, number]
            if transposed:
                result[_window(tap, counts, strides, dilations)] += signal * factor
            else:
                result += torch.mul(signal[_window(tap, sizes, strides, dilations)], factor, out=term)
    return result.reshape(x.shape[0], -1, *sizes)


def _window(
    tap: Sequence[int], counts: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> tuple[Any, ...]:
    """Return the places along the last axes that a tap of a kernel meets, `counts` along each."""
    places = zip(tap, counts, strides, dilations, strict=True)
    return (..., *(slice(t * d, t * d + (count - 1) * s + 1, s) for t, count, s, d in places))


def _folded(combine: Any, start: float, x: Tensor, axes: Sequence[int], keep: bool) -> Tensor:
    """Combine the elements of `x` over `axes`, the last of them running fastest."""
    front = sorted(axis % x.ndim for axis in axes)
    moved = x.movedim(front, list(range(len(front))))
    terms = moved.reshape(prod(moved.shape[: len(front)]), *moved.shape[len(front) :]).contiguous()
    if x.dtype != torch.float16:
        result = terms.prod(dim=0)
    else:
        result = torch.full(terms.shape[1:], start, dtype=x.dtype)
        for term in terms:
            combine(result, term, out=result)
    return result.reshape([1 if axis in front else size for axis, size in enumerate(x.shape)]) if keep else result
