"""Interpolation along the last two axes."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from kokoro_nb.backends.mil.operators.registry import OperatorSite, operator, table
from kokoro_nb.errors import InputError

Grid = Callable[[int, int], np.ndarray]  # number of elements before and after -> places to read, in elements


# Each place is one quotient of whole numbers, so that a place on an element is on it exactly.
GRIDS: dict[str, Grid] = {
    "STRICT_ALIGN_CORNERS": lambda before, after: np.arange(after) * (before - 1) / max(1, after - 1),
    "ALIGN_CORNERS": lambda before, after: (
        np.arange(after) * (before - 1) / (after - 1) if after > 1 else np.array([(before - 1) / 2])
    ),
    "UNALIGN_CORNERS": lambda before, after: ((2 * np.arange(after) + 1) * before - after) / (2 * after),
    "DEFAULT": lambda before, after: np.arange(after) * before / after,
    "OFFSET_CORNERS": lambda before, after: (2 * np.arange(after) + 1) * max(1, before - 1) / (2 * after),
}


def _linear(x: Tensor, axis: int, after: int, grid: Grid) -> Tensor:
    """Interpolate linearly along `axis` at the places of `grid`, clamped to the axis."""
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
    grid = GRIDS["STRICT_ALIGN_CORNERS" if align_corners else "UNALIGN_CORNERS" if centred else "DEFAULT"]
    x = _linear(x, -2, _scaled(x.shape[-2], scale_factor_height), grid)
    return _linear(x, -1, _scaled(x.shape[-1], scale_factor_width), grid)


@operator("resize_bilinear")
def resize_bilinear(x: Tensor, target_size_height: int, target_size_width: int, sampling_mode: str) -> Tensor:
    """Interpolate linearly until there are so many elements."""
    grid = GRIDS[sampling_mode]
    return _linear(_linear(x, -2, target_size_height, grid), -1, target_size_width, grid)


@operator("resize")
def resize(
    site: OperatorSite, x: Tensor, shape: list[int], resized_dims: int, interpolation_mode: str, sampling_mode: str
) -> Tensor:
    """Interpolate along the last axes until they have the sizes that `shape` ends with; 0 leaves one as it is.

    Raises
    ------
    InputError
        For nearest neighbours with another sampling than the default: MIL does not say how places are rounded there.
    """
    if interpolation_mode != "LINEAR" and sampling_mode != "DEFAULT":
        how = f"nearest neighbours with {sampling_mode}, and MIL does not say how places are rounded"
        raise InputError(f"resize '{site.name}' takes {how}; use DEFAULT.")
    for axis, size in zip(range(-resized_dims, 0), shape[-resized_dims:] if resized_dims else [], strict=True):
        if size:
            linear = interpolation_mode == "LINEAR"
            x = _linear(x, axis, size, GRIDS[sampling_mode]) if linear else _nearest(x, axis, size)
    return x


table(
    {
        "resize_nearest_neighbor": lambda x, target_size_height, target_size_width: _nearest(
            _nearest(x, -2, int(target_size_height)), -1, int(target_size_width)
        )
    }
)
