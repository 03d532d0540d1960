"""Operators that order elements, or add them up in order."""

import torch
from torch import Tensor

from kokoro_nb.backends.mil import accumulation
from kokoro_nb.backends.mil.operators.registry import Site, operator


def _order(x: Tensor, axis: int, ascending: bool) -> Tensor:
    """Return the places in sorted order, equal elements as they come; NaN is last both ways, as in coremltools."""
    if ascending:
        return torch.argsort(x, dim=axis, stable=True)
    if x.is_floating_point():
        return torch.argsort(-x, dim=axis, stable=True)
    return torch.argsort(x, dim=axis, descending=True, stable=True)


@operator("argsort")
def argsort(site: Site, x: Tensor, axis: Tensor, ascending: Tensor) -> Tensor:
    """Return the places of the elements in sorted order."""
    return _order(x, int(axis), bool(ascending))


@operator("topk")
def topk(
    site: Site,
    x: Tensor,
    k: Tensor,
    axis: Tensor,
    ascending: Tensor,
    sort: Tensor | bool = True,
    return_indices: Tensor | bool = True,
    output_indices_dtype: str = "int32",
) -> Tensor | tuple[Tensor, Tensor]:
    """Return the k largest or smallest elements, and their places; sorted, whether that is asked for or not."""
    along = int(axis)
    count = x.shape[along] if int(k) == -1 else int(k)
    places = _order(x, along, bool(ascending)).narrow(along, 0, count)
    values = torch.take_along_dim(x, places, dim=along)
    return (values, places) if return_indices else values


@operator("cumsum")
def cumsum(site: Site, x: Tensor, axis: Tensor, exclusive: Tensor, reverse: Tensor) -> Tensor:
    """Return the running sum, each element's own value left out if exclusive, from the end on if reversed."""
    along = int(axis)
    x = x.flip(along) if reverse else x
    if exclusive:
        shifted = x.narrow(along, 0, x.shape[along] - 1)
        x = torch.cat([torch.zeros_like(x.narrow(along, 0, 1)), shifted], dim=along)
    sums = accumulation.running(x, along)
    return sums.flip(along) if reverse else sums
