"""Interpolation along the last two axes."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from kokoro_nb.backends.mil.operators.registry import Site, ints, operator
from kokoro_nb.errors import InputError

Grid = Callable[[int, int], np.ndarray]  # number of elements before and after -> places to read, in elements


# Each place is one quotient of whole numbers, so that a place on an element is on it exactly.


def _aligned(before: int, after: int) -> np.ndarray:
    return np.arange(after) * (before - 1) / max(1, after - 1)


def _aligned_or_middle(before: int, after: int) -> np.ndarray:
    return _aligned(before, after) if after > 1 else np.array([(before - 1) / 2])


def _half_pixel(before: int, after: int) -> np.ndarray:
    return ((2 * np.arange(after) + 1) * before - after) / (2 * after)


def _from_start(before: int, after: int) -> np.ndarray:
    return np.arange(after) * before / after


def _offset(before: int, after: int) -> np.ndarray:
    return (2 * np.arange(after) + 1) * max(1, before - 1) / (2 * after)


GRIDS: dict[str, Grid] = {
    "STRICT_ALIGN_CORNERS": _aligned,
    "ALIGN_CORNERS": _aligned_or_middle,
    "UNALIGN_CORNERS": _half_pixel,
    "DEFAULT": _from_start,
    "OFFSET_CORNERS": _offset,
}


def _linear(x: Tensor, axis: int, after: int, grid: Grid) -> Tensor:
    """Interpolate linearly along `axis` at the places of `grid`, kept within the axis."""
    before = x.shape[axis]
    places = np.clip(grid(before, after), 0, before - 1)
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
def upsample_nearest_neighbor(site: Site, x: Tensor, scale_factor_height: Tensor, scale_factor_width: Tensor) -> Tensor:
    """Repeat elements, by whole or broken factors."""
    x = _nearest(x, -2, _scaled(x.shape[-2], scale_factor_height))
    return _nearest(x, -1, _scaled(x.shape[-1], scale_factor_width))


@operator("resize_nearest_neighbor")
def resize_nearest_neighbor(site: Site, x: Tensor, target_size_height: Tensor, target_size_width: Tensor) -> Tensor:
    """Repeat elements until there are so many."""
    return _nearest(_nearest(x, -2, int(target_size_height)), -1, int(target_size_width))


@operator("upsample_bilinear")
def upsample_bilinear(
    site: Site,
    x: Tensor,
    scale_factor_height: Tensor,
    scale_factor_width: Tensor,
    align_corners: Tensor,
    half_pixel_centers: Tensor | None = None,
) -> Tensor:
    """Interpolate linearly; the spacing of the places follows from the sizes, not from the factors."""
    centred = not align_corners if half_pixel_centers is None else bool(half_pixel_centers)
    if align_corners and centred:
        raise InputError(
            f"upsample_bilinear '{site.name}' has aligned corners and half-pixel centres, which exclude each other."
        )
    grid = _aligned if align_corners else _half_pixel if centred else _from_start
    x = _linear(x, -2, _scaled(x.shape[-2], scale_factor_height), grid)
    return _linear(x, -1, _scaled(x.shape[-1], scale_factor_width), grid)


@operator("resize_bilinear")
def resize_bilinear(
    site: Site, x: Tensor, target_size_height: Tensor, target_size_width: Tensor, sampling_mode: str
) -> Tensor:
    """Interpolate linearly until there are so many elements."""
    grid = GRIDS[sampling_mode]
    return _linear(_linear(x, -2, int(target_size_height), grid), -1, int(target_size_width), grid)


@operator("resize")
def resize(
    site: Site, x: Tensor, shape: Tensor, resized_dims: Tensor, interpolation_mode: str, sampling_mode: str
) -> Tensor:
    """Interpolate along the last axes until they have the sizes that `shape` ends with; 0 leaves one as it is.

    Raises
    ------
    InputError
        For nearest neighbours with another sampling than the default: MIL does not say how places are rounded there.
    """
    if interpolation_mode != "LINEAR" and sampling_mode != "DEFAULT":
        raise InputError(
            f"resize '{site.name}' takes nearest neighbours with {sampling_mode}, and MIL does not say how places are "
            "rounded; use DEFAULT."
        )
    count = int(resized_dims)
    for axis, size in zip(range(x.ndim - count, x.ndim), ints(shape)[-count:] if count else [], strict=True):
        if size:
            linear = interpolation_mode == "LINEAR"
            x = _linear(x, axis, size, GRIDS[sampling_mode]) if linear else _nearest(x, axis, size)
    return x
