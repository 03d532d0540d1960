"""Operators that take parts by their place, or make places: slices, ranges, windows."""

import torch
from torch import Tensor

from kokoro_nb.backends.mil.operators.registry import ints, operator, table

Places = list[slice]


def _slices(
    x: Tensor,
    begin: Tensor,
    end: Tensor,
    stride: Tensor | None = None,
    begin_mask: Tensor | None = None,
    end_mask: Tensor | None = None,
    squeeze_mask: Tensor | None = None,
) -> tuple[Places, list[int]]:
    """Return one slice for each axis, as Python understands them, and the axes to remove afterwards.

    Raises
    ------
    IndexError
        If an axis to remove has no element at its place.
    """
    steps = [1] * x.ndim if stride is None else ints(stride)
    masks = ([0] * x.ndim if mask is None else ints(mask) for mask in (begin_mask, end_mask, squeeze_mask))
    places, gone = [], []
    for axis, (low, high, step, open_low, open_high, removed) in enumerate(
        zip(ints(begin), ints(end), steps, *masks, strict=True)
    ):
        low = 0 if removed and open_low else low
        if removed:
            size = x.shape[axis]
            if not -size <= low < size:
                raise IndexError(f"index {low} is out of range for an axis of {size}")
            places.append(slice(low % size, low % size + 1, 1))
            gone.append(axis)
        else:
            places.append(slice(None if open_low else low, None if open_high else high, step))
    return places, gone


def _numbers(places: range) -> Tensor:
    return torch.tensor(places, dtype=torch.int64)  # an empty range would be taken for floats


def _taken(x: Tensor, places: Places) -> Tensor:
    for axis, place in enumerate(places):
        chosen = range(*place.indices(x.shape[axis]))
        if chosen != range(x.shape[axis]):
            x = x[(slice(None),) * axis + (place,)] if place.step > 0 else x.index_select(axis, _numbers(chosen))
    return x


@operator("slice_by_index")
def slice_by_index(x: Tensor, **bounds: Tensor) -> Tensor:
    """Return ``x[begin:end:stride, ...]``; a mask leaves a bound out, or takes one element and removes its axis."""
    places, gone = _slices(x, **bounds)
    taken = _taken(x, places)
    return taken.squeeze(tuple(gone)) if gone else taken


@operator("slice_update")
def slice_update(x: Tensor, update: Tensor, **bounds: Tensor) -> Tensor:
    """Return x with the slice that `slice_by_index` would take replaced."""
    places, gone = _slices(x, **bounds)
    for axis in gone:
        update = update.unsqueeze(axis)
    chosen = [_numbers(range(*place.indices(size))) for place, size in zip(places, x.shape, strict=True)]
    grid = torch.meshgrid(*chosen, indexing="ij")
    if tuple(update.shape) != tuple(grid[0].shape):
        raise IndexError(f"an update of shape {tuple(update.shape)} does not fit the slice {tuple(grid[0].shape)}")
    return x.index_put(tuple(grid), update)


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


@operator("sliding_windows")
def sliding_windows(x: Tensor, axis: int, size: int, stride: int) -> Tensor:
    """Return all windows along an axis, their elements along a new axis behind it."""
    along = axis % x.ndim
    return x.unfold(along, size, stride).movedim(-1, along + 1)


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
