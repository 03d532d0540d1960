"""Operators that arrange elements anew, or make them of nothing."""

from math import prod

import torch
from torch import Tensor

from kokoro_nb.backends.mil.operators.registry import Site, ints, operator
from kokoro_nb.errors import InputError

IOS17 = 8  # number of the operator set


@operator("reshape")
def reshape(site: Site, x: Tensor, shape: Tensor) -> Tensor:
    """Give another shape: -1 stands for what is left, 0 for the size of the input.

    Before iOS 17, 0 means the axis of the same number; from iOS 17 on that counted from the right, and 1 where the
    input has no such axis.
    """
    wanted = ints(shape)
    sizes = list(x.shape) if site.opset < IOS17 else ([1] * len(wanted) + list(x.shape))[-len(wanted) :]
    return x.reshape([size if size else sizes[i] for i, size in enumerate(wanted)])


@operator("reshape_like")
def reshape_like(
    site: Site,
    x: Tensor,
    ref_tensors: list[Tensor],
    begins: list[Tensor],
    ends: list[Tensor],
    end_masks: list[Tensor],
) -> Tensor:
    """Give the shape that parts of the shapes of other tensors add up to."""
    sizes: list[int] = []
    for tensor, begin, end, open_end in zip(ref_tensors, begins, ends, end_masks, strict=True):
        sizes += tensor.shape[int(begin) : None if open_end else int(end)]
    return x.reshape(sizes)


@operator("expand_dims")
def expand_dims(site: Site, x: Tensor, axes: Tensor) -> Tensor:
    """Insert axes of size 1, numbered in the result."""
    rank = x.ndim + axes.numel()
    for axis in sorted(axis % rank for axis in ints(axes)):
        x = x.unsqueeze(axis)
    return x


@operator("squeeze")
def squeeze(site: Site, x: Tensor, axes: Tensor | None = None) -> Tensor:
    """Remove axes of size 1; an axis of another size stays."""
    return x.squeeze() if axes is None else x.squeeze(tuple(ints(axes)))


@operator("transpose")
def transpose(site: Site, x: Tensor, perm: Tensor) -> Tensor:
    """Put the axes in another order."""
    return x.permute(*ints(perm))


@operator("flatten2d")
def flatten2d(site: Site, x: Tensor, axis: Tensor) -> Tensor:
    """Flatten the axes before `axis` into one, and those from it on."""
    return x.reshape(prod(x.shape[: int(axis)]), prod(x.shape[int(axis) :]))


@operator("shape")
def shape_of(site: Site, x: Tensor) -> Tensor:
    """Return the shape."""
    return torch.tensor(x.shape, dtype=torch.int32)


@operator("concat")
def concat(site: Site, values: list[Tensor], axis: Tensor, interleave: Tensor) -> Tensor:
    """Join along an axis, one after the other or, interleaved, by turns."""
    if not values[0].ndim:
        return torch.stack(values)
    if not interleave:
        return torch.cat(values, dim=int(axis))
    along = int(axis) % values[0].ndim
    return torch.stack(values, dim=along + 1).flatten(along, along + 1)


@operator("stack")
def stack(site: Site, values: list[Tensor], axis: Tensor) -> Tensor:
    """Join along a new axis."""
    return torch.stack(values, dim=int(axis))


@operator("split")
def split(
    site: Site, x: Tensor, axis: Tensor, num_splits: Tensor | None = None, split_sizes: Tensor | None = None
) -> tuple[Tensor, ...]:
    """Cut along an axis, into parts of one size or of given sizes."""
    if split_sizes is not None:
        return x.split(ints(split_sizes), dim=int(axis))
    assert num_splits is not None
    return x.split(x.shape[int(axis)] // int(num_splits), dim=int(axis))


@operator("tile")
def tile(site: Site, x: Tensor, reps: Tensor) -> Tensor:
    """Repeat the whole along each axis."""
    return x.repeat(*ints(reps))


@operator("pad")
def pad(site: Site, x: Tensor, pad: Tensor, mode: str, constant_val: Tensor) -> Tensor:
    """Extend the last axes: by a constant, by what mirrors the signal at its outermost element, or by that element.

    Raises
    ------
    InputError
        If a mirror would need more than the axis has.
    """
    numbers = ints(pad)
    first = x.ndim - len(numbers) // 2
    for axis, before, after in zip(range(first, x.ndim), numbers[::2], numbers[1::2], strict=True):
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
            raise InputError(
                f"pad '{site.name}' mirrors {max(before, after)} elements of an axis of {size}; "
                f"it can mirror {size - 1}."
            )
        else:
            places = (size - 1) - (places.abs() - (size - 1)).abs()
        x = x.index_select(axis, places)
    return x


@operator("reverse")
def reverse(site: Site, x: Tensor, axes: Tensor | None = None) -> Tensor:
    """Turn the order along some axes, or along all."""
    return x.flip(list(range(x.ndim)) if axes is None else ints(axes))


@operator("reverse_sequence")
def reverse_sequence(site: Site, x: Tensor, lengths: Tensor, seq_axis: Tensor, batch_axis: Tensor) -> Tensor:
    """Turn the order of the first elements along one axis, how many of them for each element of another."""
    moved = x.movedim((int(batch_axis), int(seq_axis)), (0, 1))
    place, length = torch.arange(moved.shape[1]), lengths.long()[:, None]
    source = torch.where(place < length, length - 1 - place, place)
    return moved[torch.arange(len(moved))[:, None], source].movedim((0, 1), (int(batch_axis), int(seq_axis)))


@operator("fill")
def fill(site: Site, shape: Tensor, value: Tensor) -> Tensor:
    """Return a tensor of this shape with the same value everywhere."""
    return value.expand(ints(shape)).clone()


@operator("fill_like")
def fill_like(site: Site, ref_tensor: Tensor, value: Tensor) -> Tensor:
    """Return a tensor of the shape of another with the same value everywhere."""
    return value.expand(ref_tensor.shape).clone()


@operator("band_part")
def band_part(site: Site, x: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    """Keep the main diagonal with so many below and above it, all where the number is negative; 0 elsewhere."""
    below = torch.arange(x.shape[-2])[:, None] - torch.arange(x.shape[-1])
    kept = ((lower < 0) | (below <= lower)) & ((upper < 0) | (-below <= upper))
    return torch.where(kept, x, torch.zeros((), dtype=x.dtype))
