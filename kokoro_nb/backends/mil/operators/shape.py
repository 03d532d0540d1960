"""Operators that arrange elements anew, or make them of nothing."""

from math import prod

import torch
import torch.nn.functional as F
from torch import Tensor

from kokoro_nb.backends.mil.operators.convolution import padded
from kokoro_nb.backends.mil.operators.registry import OperatorSite, ints, operator, table
from kokoro_nb.errors import InputError

IOS17 = 8  # number of the operator set


@operator("reshape")
def reshape(site: OperatorSite, x: Tensor, shape: list[int]) -> Tensor:
    """Give another shape: -1 stands for what is left, 0 for the size of the input.

    Before iOS 17, 0 means the axis of the same number; from iOS 17 on that counted from the right, and 1 where the
    input has no such axis.
    """
    sizes = list(x.shape) if site.opset < IOS17 else ([1] * len(shape) + list(x.shape))[-len(shape) :]
    return x.reshape([size if size else sizes[i] for i, size in enumerate(shape)])


@operator("reshape_like")
def reshape_like(
    x: Tensor, ref_tensors: list[Tensor], begins: list[int], ends: list[int], end_masks: list[bool]
) -> Tensor:
    """Give the shape that parts of the shapes of other tensors add up to."""
    sizes: list[int] = []
    for tensor, begin, end, open_end in zip(ref_tensors, begins, ends, end_masks, strict=True):
        sizes += tensor.shape[begin : None if open_end else end]
    return x.reshape(sizes)


@operator("expand_dims")
def expand_dims(x: Tensor, axes: list[int]) -> Tensor:
    """Insert axes of size 1, numbered in the result."""
    rank = x.ndim + len(axes)
    for axis in sorted(axis % rank for axis in axes):
        x = x.unsqueeze(axis)
    return x


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
def split(
    x: Tensor, axis: int, num_splits: int | None = None, split_sizes: list[int] | None = None
) -> tuple[Tensor, ...]:
    """Cut along an axis, into parts of one size or of given sizes."""
    if split_sizes is not None:
        return x.split(split_sizes, dim=axis)
    assert num_splits is not None
    return x.split(x.shape[axis] // num_splits, dim=axis)


@operator("pad")
def pad(site: OperatorSite, x: Tensor, pad: list[int], mode: str, constant_val: Tensor) -> Tensor:
    """Extend the last axes: by a constant, by what mirrors the signal at its outermost element, or by that element.

    Raises
    ------
    InputError
        If a mirror would need more than the axis has.
    """
    for axis, before, after in zip(range(x.ndim - len(pad) // 2, x.ndim), pad[::2], pad[1::2], strict=True):
        size = x.shape[axis]
        if mode == "constant":
            sizes = list(x.shape)
            parts = [constant_val.to(x.dtype).expand(*sizes[:axis], n, *sizes[axis + 1 :]) for n in (before, after)]
            x = torch.cat([parts[0], x, parts[1]], dim=axis)
            continue
        places = torch.arange(-before, size + after)
        if mode == "replicate":
            places = places.clamp(0, size - 1)
        elif max(before, after) >= size:
            what = f"mirrors {max(before, after)} elements of an axis of {size}; it can mirror {size - 1}"
            raise InputError(f"pad '{site.name}' {what}.")
        else:
            places = (size - 1) - (places.abs() - (size - 1)).abs()
        x = x.index_select(axis, places)
    return x


@operator("reverse_sequence")
def reverse_sequence(x: Tensor, lengths: Tensor, seq_axis: int, batch_axis: int) -> Tensor:
    """Turn the order of the first elements along one axis, how many of them for each element of another."""
    moved = x.movedim((batch_axis, seq_axis), (0, 1))
    place, length = torch.arange(moved.shape[1]), lengths.long()[:, None]
    source = torch.where(place < length, length - 1 - place, place)
    return moved[torch.arange(len(moved))[:, None], source].movedim((0, 1), (batch_axis, seq_axis))


table(
    {
        "shape": lambda x: torch.tensor(x.shape, dtype=torch.int32),
        "transpose": lambda x, perm: x.permute(*ints(perm)),
        "flatten2d": lambda x, axis: x.reshape(prod(x.shape[: int(axis)]), prod(x.shape[int(axis) :])),
        "stack": lambda values, axis: torch.stack(values, dim=int(axis)),
        "tile": lambda x, reps: x.repeat(*ints(reps)),
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


@operator("depth_to_space")
def depth_to_space(x: Tensor, block_size: int) -> Tensor:
    """Spread channels over blocks of pixels, as TensorFlow does; those of one block lie a stride apart."""
    batch, _, height, width = x.shape
    x = x.reshape(batch, block_size, block_size, -1, height, width).permute(0, 3, 4, 1, 5, 2)
    return x.reshape(batch, -1, height * block_size, width * block_size)


@operator("space_to_depth")
def space_to_depth(x: Tensor, block_size: int) -> Tensor:
    """Undo `depth_to_space`."""
    batch, channels, height, width = x.shape
    x = x.reshape(batch, channels, height // block_size, block_size, width // block_size, block_size)
    return x.permute(0, 3, 5, 1, 2, 4).reshape(batch, -1, height // block_size, width // block_size)


@operator("space_to_batch")
def space_to_batch(x: Tensor, block_shape: list[int], paddings: list[int]) -> Tensor:
    """Pad, then make an example of the batch of each place within a block, as TensorFlow does."""
    rows, columns = block_shape
    top, bottom, left, right = paddings
    x = padded(x, [(top, bottom), (left, right)])
    batch, channels, height, width = x.shape
    x = x.reshape(batch, channels, height // rows, rows, width // columns, columns).permute(3, 5, 0, 1, 2, 4)
    return x.reshape(-1, channels, height // rows, width // columns)


@operator("batch_to_space")
def batch_to_space(x: Tensor, block_shape: list[int], crops: list[int]) -> Tensor:
    """Undo `space_to_batch`, cropping in place of padding."""
    rows, columns = block_shape
    top, bottom, left, right = crops
    _, channels, height, width = x.shape
    x = x.reshape(rows, columns, -1, channels, height, width).permute(2, 3, 4, 0, 5, 1)
    x = x.reshape(-1, channels, height * rows, width * columns)
    return padded(x, [(-top, -bottom), (-left, -right)])
