"""Operators that read or write at places that are values themselves, and that take parts by their place.

An index that is out of range is an error here, always. Core ML leaves open what happens then unless
``validate_indices`` is set. Up to iOS 16 a negative index counts from the end; from iOS 17 on it is out of range.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kokoro_nb.backends.mil.operators.registry import OperatorSite, ints, operator, table
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
        what = f"index {int(wrong.flatten()[0])}, out of range for an axis of {size}"
        raise InputError(f"{site.type} '{site.name}' has {what}, which Core ML does not define: keep it in range.")
    return torch.where(indices < 0, indices + size, indices)


@operator("gather")
def gather(site: OperatorSite, x: Tensor, indices: Tensor, axis: int, batch_dims: int = 0) -> Tensor:
    """Take slices along an axis, each example of the first `batch_dims` axes by its own indices."""
    along = axis % x.ndim
    places = _places(site, indices, x.shape[along]).numpy()
    rows, per_row = x.numpy().reshape(-1, *x.shape[batch_dims:]), places.reshape(-1, *places.shape[batch_dims:])
    taken = [np.take(row, chosen, along - batch_dims) for row, chosen in zip(rows, per_row, strict=True)]
    return torch.from_numpy(np.stack(taken)).reshape((*x.shape[:batch_dims], *taken[0].shape))


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


def _slices(
    x: Tensor,
    begin: Tensor,
    end: Tensor,
    stride: Tensor | None = None,
    begin_mask: Tensor | None = None,
    end_mask: Tensor | None = None,
    squeeze_mask: Tensor | None = None,
) -> tuple[slice | int, ...]:
    """Return the index that NumPy takes: of each axis a slice, or the place of the one element that is left of it."""
    steps = [1] * x.ndim if stride is None else ints(stride)
    masks = ([0] * x.ndim if mask is None else ints(mask) for mask in (begin_mask, end_mask, squeeze_mask))
    return tuple(
        (0 if open_low else low) if removed else slice(None if open_low else low, None if open_high else high, step)
        for low, high, step, open_low, open_high, removed in zip(ints(begin), ints(end), steps, *masks, strict=True)
    )


@operator("slice_by_index")
def slice_by_index(x: Tensor, **bounds: Tensor) -> Tensor:
    """Return ``x[begin:end:stride, ...]``; a mask leaves a bound out, or takes one element and removes its axis."""
    return torch.from_numpy(np.array(x.numpy()[_slices(x, **bounds)]))


@operator("slice_update")
def slice_update(x: Tensor, update: Tensor, **bounds: Tensor) -> Tensor:
    """Return x with the slice that `slice_by_index` would take replaced."""
    result, places = x.numpy().copy(), _slices(x, **bounds)
    if tuple(update.shape) != result[places].shape:
        raise IndexError(f"an update of shape {tuple(update.shape)} does not fit the slice {result[places].shape}")
    result[places] = update.numpy()
    return torch.from_numpy(result)


@operator("slice_by_size")
def slice_by_size(x: Tensor, begin: list[int], size: list[int]) -> Tensor:
    """Return so many elements from each beginning on; -1 stands for all that are left.

    Raises
    ------
    IndexError
        If there are fewer.
    """
    for axis, (start, count) in enumerate(zip(begin, size, strict=True)):
        start += x.shape[axis] if start < 0 else 0
        length = x.shape[axis] - start if count == -1 else count
        if not 0 <= start <= start + length <= x.shape[axis]:
            raise IndexError(f"{length} elements from {start} are out of range for an axis of {x.shape[axis]}")
        x = x.narrow(axis, start, length)
    return x


@operator("crop")
def crop(x: Tensor, crop_height: list[int], crop_width: list[int]) -> Tensor:
    """Cut from both ends of the last two axes."""
    (top, bottom), (left, right) = crop_height, crop_width
    return x[..., top : x.shape[-2] - bottom, left : x.shape[-1] - right]


@operator("range_1d")
def range_1d(start: Tensor, end: Tensor, step: Tensor) -> Tensor:
    """Return start, start + step, ... below end: each a product and a sum, none added up from the one before."""
    first, pace = start.reshape(()), step.reshape(())
    count = max(0, int(torch.ceil((end.reshape(()).double() - first.double()) / pace.double())))
    return first + pace * torch.arange(count).to(first.dtype)


@operator("one_hot")
def one_hot(indices: Tensor, one_hot_vector_size: int, axis: int, on_value: Tensor, off_value: Tensor) -> Tensor:
    """Return a vector for each index, on at its place alone; an index out of range has none."""
    at = axis % (indices.ndim + 1)
    places = torch.arange(one_hot_vector_size)
    hits = indices.unsqueeze(at) == places.reshape(-1, *[1] * (indices.ndim - at))
    return torch.where(hits, on_value, off_value)


table({"non_zero": lambda x: torch.nonzero(x)})
