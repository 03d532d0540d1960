"""Operators that order elements, or add them up in order."""

import torch
from torch import Tensor

from kokoro_nb.backends.mil import accumulation
from kokoro_nb.backends.mil.operators.registry import operator


@operator("argsort")
def argsort(x: Tensor, axis: int, ascending: bool) -> Tensor:
    """Return the places in sorted order, equal elements as they come; NaN is last both ways, as in coremltools."""
    if not ascending and x.is_floating_point():
        x, ascending = -x, True
    return torch.argsort(x, dim=axis, descending=not ascending, stable=True)


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
