"""Operators that arrange elements anew, make them of nothing, or interpolate along the last two axes."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

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
