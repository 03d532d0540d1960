"""Operators that make one number of many, order elements, or norm, as MIL's formulas have it: mean, then variance."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from kokoro_nb.backends.mil import accumulation
from kokoro_nb.backends.mil.operators.registry import operator, table

Reduction = Callable[[Tensor, Sequence[int], bool], Tensor]


def _over_axes(reduce: Reduction) -> Callable[..., Tensor]:
    """Make an operator of a reduction; what it gives for integers is cut off to an integer, as coremltools does."""

    def run(x: Tensor, keep_dims: bool, axes: list[int] | None = None) -> Tensor:
        result = reduce(x, list(range(x.ndim)) if axes is None else axes, keep_dims)
        return result if result.is_floating_point() == x.is_floating_point() else result.to(torch.int32)

    return run


def _real(x: Tensor) -> Tensor:
    return x if x.is_floating_point() else x.double()


def _single(x: Tensor) -> Tensor:
    """Return floats as float32, in which equals that were computed twice are equal."""
    return x.float() if x.is_floating_point() else x


def _log_sum_exp(x: Tensor, axes: Sequence[int], keep: bool) -> Tensor:
    largest = torch.amax(_real(x), dim=tuple(axes), keepdim=True)
    logs = torch.log(accumulation.total(torch.exp(_real(x) - largest), axes, keep=True)) + largest
    return logs if keep else logs.squeeze(tuple(axes))


REDUCTIONS: dict[str, Reduction] = {
    "reduce_sum": accumulation.total,
    "reduce_mean": lambda x, axes, keep: accumulation.mean(_real(x), axes, keep),
    "reduce_prod": accumulation.multiplied,
    "reduce_max": lambda x, axes, keep: torch.amax(x, dim=tuple(axes), keepdim=keep),
    "reduce_min": lambda x, axes, keep: torch.amin(x, dim=tuple(axes), keepdim=keep),
    "reduce_sum_square": lambda x, axes, keep: accumulation.total(x * x, axes, keep),
    "reduce_l1_norm": lambda x, axes, keep: accumulation.total(torch.abs(x), axes, keep),
    "reduce_l2_norm": lambda x, axes, keep: torch.sqrt(_real(accumulation.total(x * x, axes, keep))),
    "reduce_log_sum": lambda x, axes, keep: torch.log(_real(accumulation.total(x, axes, keep))),
    "reduce_log_sum_exp": _log_sum_exp,
}
table({name: _over_axes(reduce) for name, reduce in REDUCTIONS.items()})
table(  # the place of the first such element, or of the first NaN
    {
        "reduce_argmax": lambda x, axis, keep_dims: torch.argmax(_single(x), int(axis), bool(keep_dims)),
        "reduce_argmin": lambda x, axis, keep_dims: torch.argmin(_single(x), int(axis), bool(keep_dims)),
    }
)


@operator("argsort")
def argsort(x: Tensor, axis: int, ascending: bool) -> Tensor:
    """Return the places in sorted order, equal elements as they come; NaN is last both ways, as in coremltools."""
    if not ascending and x.is_floating_point():
        x, ascending = -x, True
    return torch.argsort(_single(x), dim=axis, descending=not ascending, stable=True)


@operator("topk")
def topk(
    x: Tensor, k: int, axis: int, ascending: bool, sort: bool = True, return_indices: bool = True
) -> Tensor | tuple[Tensor, Tensor]:
    """Return the k largest or smallest elements, and their places; always sorted."""
    places = argsort(x, axis, ascending).narrow(axis, 0, x.shape[axis] if k == -1 else k)
    values = torch.take_along_dim(x, places, dim=axis)
    return (values, places) if return_indices else values


@operator("cumsum")
def cumsum(x: Tensor, axis: int, exclusive: bool, reverse: bool) -> Tensor:
    """Return the running sum, each element's own value left out if exclusive, from the end on if reversed."""
    x = x.flip(axis) if reverse else x
    if exclusive:
        shifted = x.narrow(axis, 0, x.shape[axis] - 1)
        x = torch.cat([torch.zeros_like(x.narrow(axis, 0, 1)), shifted], dim=axis)
    sums = accumulation.running(x, axis)
    return sums.flip(axis) if reverse else sums


def _standardised(x: Tensor, axes: Sequence[int], epsilon: Tensor) -> Tensor:
    centred = x - accumulation.mean(x, axes, keep=True)
    variance = accumulation.mean(centred * centred, axes, keep=True)
    return centred / torch.sqrt(variance + epsilon)


def _scaled(x: Tensor, gamma: Tensor | None, beta: Tensor | None, shape: Sequence[int]) -> Tensor:
    x = x if gamma is None else x * gamma.to(x.dtype).reshape(*shape)
    return x if beta is None else x + beta.to(x.dtype).reshape(*shape)


@operator("batch_norm")
def batch_norm(
    x: Tensor, mean: Tensor, variance: Tensor, epsilon: Tensor, gamma: Tensor | None = None, beta: Tensor | None = None
) -> Tensor:
    """Return gamma (x - mean) / sqrt(variance + epsilon) + beta, each by channel."""
    shape = [-1, *[1] * (x.ndim - 2)]
    deviation = torch.sqrt(variance.to(x.dtype) + epsilon)
    return _scaled((x - mean.to(x.dtype).reshape(*shape)) / deviation.reshape(*shape), gamma, beta, shape)


@operator("instance_norm")
def instance_norm(x: Tensor, epsilon: Tensor, gamma: Tensor | None = None, beta: Tensor | None = None) -> Tensor:
    """Give each channel of each example mean 0 and variance 1, then scale and shift it by channel."""
    return _scaled(_standardised(x, range(2, x.ndim), epsilon), gamma, beta, [-1, *[1] * (x.ndim - 2)])


@operator("layer_norm")
def layer_norm(
    x: Tensor, axes: list[int], epsilon: Tensor, gamma: Tensor | None = None, beta: Tensor | None = None
) -> Tensor:
    """Give the elements along `axes` mean 0 and variance 1, then scale and shift each place."""
    over = sorted(axis % x.ndim for axis in axes)
    shape = [size if axis in over else 1 for axis, size in enumerate(x.shape)]
    return _scaled(_standardised(x, over, epsilon), gamma, beta, shape)
