"""Operators that move elements: read or write at places, take parts, arrange them anew, or interpolate between them.

An index that is out of range is an error here, always. Core ML leaves open what happens then unless
``validate_indices`` is set. Up to iOS 16 a negative index counts from the end; from iOS 17 on it is out of range.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from kokoro_nb.backends.mil.operators.registry import OperatorSite, ints, operator, table
from kokoro_nb.errors import InputError

IOS17 = 8  # number of the operator set
UPDATES: dict[str, Callable[[np.ndarray, Any, np.ndarray], None]] = {
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


def _slices(x: Tensor, begin: Tensor, end: Tensor, **given: Tensor | None) -> tuple[slice | int, ...]:
    """Return the index that NumPy takes: of each axis a slice, or the place of the one element that is left of it."""
    stride, *flags = map(given.get, ("stride", "begin_mask", "end_mask", "squeeze_mask"))
    steps = [1] * x.ndim if stride is None else ints(stride)
    masks = ([0] * x.ndim if mask is None else ints(mask) for mask in flags)
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


@operator("reshape")
def reshape(site: OperatorSite, x: Tensor, shape: list[int]) -> Tensor:
    """Give another shape: -1 stands for what is left, 0 for the size of the input.

    Before iOS 17, 0 means the axis of the same number; from iOS 17 on that counted from the right, and 1 where the
    input has no such axis.
    """
    sizes = list(x.shape) if site.opset < IOS17 else ([1] * len(shape) + list(x.shape))[-len(shape) :]
    return x.reshape([size if size else sizes[i] for i, size in enumerate(shape)])


@operator("concat")
def concat(values: list[Tensor], axis: int, interleave: bool) -> Tensor:
    """Join along an axis, one after the other or, interleaved, by turns."""
    if not values[0].ndim:
        return torch.stack(values)
    if not interleave:
        return torch.cat(values, dim=axis)
    along = axis % values[0].ndim
    return torch.stack(values, dim=along + 1).flatten(along, along + 1)


@operator("split")
def split(x: Tensor, axis: int, num_splits: int = 1, split_sizes: list[int] | None = None) -> tuple[Tensor, ...]:
    """Cut along an axis, into parts of one size or of given sizes."""
    return x.split(split_sizes or x.shape[axis] // num_splits, dim=axis)


@operator("pad")
def pad(site: OperatorSite, x: Tensor, pad: list[int], mode: str, constant_val: Tensor) -> Tensor:
    """Extend the last axes: by a constant, by what mirrors the signal at its outermost element, or by that element.

    Raises
    ------
    InputError
        If a mirror would need more than the axis has.
    """
    pairs = [(0, 0)] * (x.ndim - len(pad) // 2) + list(zip(pad[::2], pad[1::2], strict=True))
    if mode == "constant":
        filling = constant_val.to(x.dtype).numpy()
        return torch.from_numpy(np.pad(x.numpy(), pairs, constant_values=filling))
    for size, pair in zip(x.shape, pairs, strict=True):
        if mode == "reflect" and max(pair) >= max(size, 1):
            what = f"mirrors {max(pair)} elements of an axis of {size}; it can mirror {size - 1}"
            raise InputError(f"pad '{site.name}' {what}.")
    return torch.from_numpy(np.pad(x.numpy(), pairs, mode="edge" if mode == "replicate" else "reflect"))


table(
    {
        "non_zero": lambda x: torch.nonzero(x),
        "shape": lambda x: torch.tensor(x.shape, dtype=torch.int32),
        "transpose": lambda x, perm: x.permute(*ints(perm)),
        "stack": lambda values, axis: torch.stack(values, dim=int(axis)),
        "tile": lambda x, reps: x.repeat(*ints(reps)),
        "expand_dims": lambda x, axes: torch.from_numpy(np.expand_dims(x.numpy(), tuple(ints(axes)))),
        "squeeze": lambda x, axes=None: x.squeeze() if axes is None else x.squeeze(tuple(ints(axes))),
        "reverse": lambda x, axes=None: x.flip(list(range(x.ndim)) if axes is None else ints(axes)),
        "pixel_shuffle": lambda x, upscale_factor: F.pixel_shuffle(x, int(upscale_factor)),
        "pixel_unshuffle": lambda x, downscale_factor: F.pixel_unshuffle(x, int(downscale_factor)),
        "fill": lambda shape, value: value.expand(ints(shape)).clone(),
        "fill_like": lambda ref_tensor, value: value.expand(ref_tensor.shape).clone(),
    }
)


@operator("band_part")
def band_part(x: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    """Keep the main diagonal with so many below and above it, all where the number is negative; 0 elsewhere."""
    below = torch.arange(x.shape[-2])[:, None] - torch.arange(x.shape[-1])
    kept = ((lower < 0) | (below <= lower)) & ((upper < 0) | (-below <= upper))
    return torch.where(kept, x, torch.zeros((), dtype=x.dtype))


def _linear(x: Tensor, axis: int, after: int, aligned: bool, centred: bool) -> Tensor:
    """Interpolate linearly along `axis`, at places clamped to it; one on an element is on it exactly."""
    before, numbers = x.shape[axis], np.arange(after)
    places = numbers * (before - 1) / max(1, after - 1) if aligned else numbers * before / after
    if centred:
        places = ((2 * numbers + 1) * before - after) / (2 * after)
    places = np.clip(places, 0, before - 1)
    low = torch.from_numpy(np.floor(places).astype(np.int64))
    high = (low + 1).clamp(max=before - 1)
    sizes = [-1 if i == axis % x.ndim else 1 for i in range(x.ndim)]
    share = torch.from_numpy(places - np.floor(places)).to(x.dtype).reshape(sizes)
    below, above = x.index_select(axis, low), x.index_select(axis, high)
    return below * (1 - share) + above * share


def _nearest(x: Tensor, axis: int, after: int) -> Tensor:
    """Repeat elements along `axis`: place i takes element floor(i * before / after)."""
    return x.index_select(axis, torch.arange(after) * x.shape[axis] // after)


def _scaled(size: int, factor: Tensor) -> int:
    """Return the size times the factor, rounded down, in the precision in which coremltools declares it."""
    if factor.is_floating_point():
        return int(np.floor(np.float32(factor.item()) * np.float32(size)))
    return size * int(factor)


@operator("upsample_nearest_neighbor")
def upsample_nearest_neighbor(x: Tensor, scale_factor_height: Tensor, scale_factor_width: Tensor) -> Tensor:
    """Repeat elements, by whole or broken factors."""
    x = _nearest(x, -2, _scaled(x.shape[-2], scale_factor_height))
    return _nearest(x, -1, _scaled(x.shape[-1], scale_factor_width))


@operator("upsample_bilinear")
def upsample_bilinear(
    site: OperatorSite,
    x: Tensor,
    scale_factor_height: Tensor,
    scale_factor_width: Tensor,
    align_corners: bool,
    half_pixel_centers: bool | None = None,
) -> Tensor:
    """Interpolate linearly; the spacing of the places follows from the sizes, not from the factors."""
    centred = not align_corners if half_pixel_centers is None else half_pixel_centers
    if align_corners and centred:
        both = "aligned corners and half-pixel centres, which exclude each other"
        raise InputError(f"upsample_bilinear '{site.name}' has {both}.")
    x = _linear(x, -2, _scaled(x.shape[-2], scale_factor_height), align_corners, centred)
    return _linear(x, -1, _scaled(x.shape[-1], scale_factor_width), align_corners, centred)
