"""Operators that read or write at places that are values themselves.

An index that is out of range is an error here, always. Core ML leaves open what happens then unless
``validate_indices`` is set. Up to iOS 16 a negative index counts from the end; from iOS 17 on it is out of range.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kokoro_nb.backends.mil.operators.registry import OperatorSite, operator
from kokoro_nb.backends.mil.operators.shape import IOS17
from kokoro_nb.errors import InputError

Update = Callable[[np.ndarray, Any, np.ndarray], None]
UPDATES: dict[str, Update] = {
    "update": lambda data, places, updates: data.__setitem__(places, updates),
    "add": np.add.at,
    "sub": np.subtract.at,
    "mul": np.multiply.at,
    "div": np.divide.at,
    "max": np.maximum.at,
    "min": np.minimum.at,
}


def _places(site: OperatorSite, indices: Tensor, size: int) -> Tensor:
    """Return the places that `indices` mean along an axis of `size`.

    Raises
    ------
    InputError
        If one is out of range.
    """
    indices = indices.long()
    lowest = -size if site.opset < IOS17 else 0
    wrong = indices[(indices < lowest) | (indices >= size)]
    if wrong.numel():
        raise InputError(
            f"{site.type} '{site.name}' has index {int(wrong.flatten()[0])}, out of range for an axis of {size}; "
            "what Core ML reads or writes there is undefined: keep the index in range."
        )
    return torch.where(indices < 0, indices + size, indices)


@operator("gather")
def gather(site: OperatorSite, x: Tensor, indices: Tensor, axis: int, batch_dims: int = 0) -> Tensor:
    """Take slices along an axis, each example of the first `batch_dims` axes by its own indices."""
    stored, along = x.dtype, axis % x.ndim
    if stored == torch.uint16:  # sizes, in a float16 file; torch takes no slices of them
        x = x.to(torch.int32)
    places = _places(site, indices, x.shape[along])
    rows, per_row = x.reshape(-1, *x.shape[batch_dims:]), places.reshape(-1, *places.shape[batch_dims:])
    before, after = rows.shape[1 : along - batch_dims + 1], rows.shape[along - batch_dims + 2 :]
    taken = [
        row.index_select(along - batch_dims, chosen.reshape(-1)).reshape((*before, *chosen.shape, *after))
        for row, chosen in zip(rows, per_row, strict=True)
    ]
    return torch.stack(taken).reshape((*x.shape[:batch_dims], *taken[0].shape)).to(stored)


@operator("gather_along_axis")
def gather_along_axis(site: OperatorSite, x: Tensor, indices: Tensor, axis: int) -> Tensor:
    """Take elements along an axis, each by the index at its own place."""
    return torch.gather(x, axis, _places(site, indices, x.shape[axis]))


@operator("gather_nd")
def gather_nd(site: OperatorSite, x: Tensor, indices: Tensor, batch_dims: int = 0) -> Tensor:
    """Take slices by their first axes: the last axis of the indices holds one number for each of them."""
    rows, per_row = x.reshape(-1, *x.shape[batch_dims:]), indices.reshape(-1, *indices.shape[batch_dims:])
    taken = [row[_coordinates(site, chosen, row)] for row, chosen in zip(rows, per_row, strict=True)]
    return torch.stack(taken).reshape((*x.shape[:batch_dims], *taken[0].shape))


def _coordinates(site: OperatorSite, indices: Tensor, x: Tensor) -> tuple[Tensor, ...]:
    return tuple(_places(site, column, size) for column, size in zip(indices.unbind(-1), x.shape, strict=False))


def _scattered(site: OperatorSite, data: Tensor, places: Any, updates: Tensor, mode: str) -> Tensor:
    """Write one element after the other, in the order of the indices and in the dtype of the data."""
    if mode == "div" and not data.is_floating_point():
        raise InputError(f"{site.type} '{site.name}' divides integers, and MIL does not say how; cast to float before.")
    result = data.numpy().copy()
    with np.errstate(all="ignore"):
        UPDATES[mode](result, places, updates.to(data.dtype).numpy())
    return torch.from_numpy(result)


@operator("scatter")
def scatter(site: OperatorSite, data: Tensor, indices: Tensor, updates: Tensor, axis: int, mode: str) -> Tensor:
    """Write slices along an axis, or add, subtract, multiply, divide, or keep the larger or smaller."""
    along = axis % data.ndim
    places = (slice(None),) * along + (_places(site, indices, data.shape[along]).numpy(),)
    return _scattered(site, data, places, updates, mode)


@operator("scatter_along_axis")
def scatter_along_axis(
    site: OperatorSite, data: Tensor, indices: Tensor, updates: Tensor, axis: int, mode: str
) -> Tensor:
    """Write elements along an axis, each to the index at its own place; modes as in `scatter`."""
    grid = list(np.indices(tuple(indices.shape)))
    grid[axis] = _places(site, indices, data.shape[axis]).numpy()
    return _scattered(site, data, tuple(grid), updates, mode)


@operator("scatter_nd")
def scatter_nd(site: OperatorSite, data: Tensor, indices: Tensor, updates: Tensor, mode: str) -> Tensor:
    """Write slices by their first axes, a number for each of which the last axis of the indices holds; as `scatter`."""
    places = tuple(column.numpy() for column in _coordinates(site, indices, data))
    return _scattered(site, data, places, updates, mode)
