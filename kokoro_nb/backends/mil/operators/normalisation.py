"""Normalisations: mean and variance first, the variance of the centred values, as MIL's formulas have it."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from kokoro_nb.backends.mil import accumulation
from kokoro_nb.backends.mil.operators.registry import operator, table


def _standardised(x: Tensor, axes: Sequence[int], epsilon: Tensor) -> Tensor:
    centred = x - accumulation.mean(x, axes, keep=True)
    variance = accumulation.mean(centred * centred, axes, keep=True)
    return centred / torch.sqrt(variance + epsilon)


def _scaled(x: Tensor, gamma: Tensor | None, beta: Tensor | None, shape: Sequence[int]) -> Tensor:
    x = x if gamma is None else x * gamma.to(x.dtype).reshape(*shape)
    return x if beta is None else x + beta.to(x.dtype).reshape(*shape)


def _by_channel(x: Tensor) -> list[int]:
    return [-1, *[1] * (x.ndim - 2)]


@operator("batch_norm")
def batch_norm(
    x: Tensor, mean: Tensor, variance: Tensor, epsilon: Tensor, gamma: Tensor | None = None, beta: Tensor | None = None
) -> Tensor:
    """Return gamma (x - mean) / sqrt(variance + epsilon) + beta, each by channel."""
    shape = _by_channel(x)
    deviation = torch.sqrt(variance.to(x.dtype) + epsilon)
    return _scaled((x - mean.to(x.dtype).reshape(*shape)) / deviation.reshape(*shape), gamma, beta, shape)


@operator("instance_norm")
def instance_norm(x: Tensor, epsilon: Tensor, gamma: Tensor | None = None, beta: Tensor | None = None) -> Tensor:
    """Give each channel of each example mean 0 and variance 1, then scale and shift it by channel."""
    return _scaled(_standardised(x, range(2, x.ndim), epsilon), gamma, beta, _by_channel(x))


@operator("layer_norm")
def layer_norm(
    x: Tensor, axes: list[int], epsilon: Tensor, gamma: Tensor | None = None, beta: Tensor | None = None
) -> Tensor:
    """Give the elements along `axes` mean 0 and variance 1, then scale and shift each place."""
    over = sorted(axis % x.ndim for axis in axes)
    shape = [size if axis in over else 1 for axis, size in enumerate(x.shape)]
    return _scaled(_standardised(x, over, epsilon), gamma, beta, shape)


@operator("local_response_norm")
def local_response_norm(x: Tensor, size: int, alpha: Tensor, beta: Tensor, k: Tensor) -> Tensor:
    """Divide by (k + alpha / size times the sum of the squares of `size` channels around) to the power of beta."""
    squares = (x * x).movedim(1, -1)
    around = F.pad(squares, (size // 2, (size - 1) // 2)).unfold(-1, size, 1)
    sums = accumulation.total(around, [-1]).movedim(-1, 1)
    return x / torch.pow(k + alpha / size * sums, beta)


table({"l2_norm": lambda x, epsilon: x / torch.sqrt(accumulation.total(x * x, (-3, -2, -1), keep=True) + epsilon)})
