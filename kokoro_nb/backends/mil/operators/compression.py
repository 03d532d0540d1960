"""Weights that a file keeps compressed, and quantised activations."""

import torch
from torch import Tensor

from kokoro_nb.backends.mil.operators.registry import Site, ints, operator


def _along(parameter: Tensor, x: Tensor, axis: int | None) -> Tensor:
    """Return a scalar as it is, and a vector with its elements along `axis` of `x`."""
    return (
        parameter if not parameter.ndim or axis is None else parameter.reshape(-1, *[1] * (x.ndim - 1 - axis % x.ndim))
    )


def _bits(packed: Tensor, width: int, count: int) -> Tensor:
    """Unpack `count` numbers of `width` bits, the lowest bit of a byte first."""
    bits = (packed.long()[:, None] >> torch.arange(8)) & 1
    numbers = bits.reshape(-1)[: width * count].reshape(count, width)
    return (numbers << torch.arange(width)).sum(dim=1)


def _blocks(parameter: Tensor, sizes: torch.Size) -> Tensor:
    """Repeat each element over the block that it is for, until the first axes have `sizes`."""
    for axis, size in enumerate(sizes):
        parameter = parameter.repeat_interleave(size // parameter.shape[axis], dim=axis)
    return parameter


@operator("constexpr_affine_dequantize")
def constexpr_affine_dequantize(
    site: Site, quantized_data: Tensor, zero_point: Tensor, scale: Tensor, axis: Tensor
) -> Tensor:
    """Return scale (data - zero point), both by place along an axis or one for all."""
    return _dequantised(quantized_data, scale, zero_point, int(axis))


def _dequantised(x: Tensor, scale: Tensor, zero_point: Tensor | None, axis: int | None) -> Tensor:
    x, factor = x.to(scale.dtype), _along(scale, x, axis)
    return x * factor if zero_point is None else (x - _along(zero_point.to(scale.dtype), x, axis)) * factor


@operator("constexpr_blockwise_shift_scale")
def constexpr_blockwise_shift_scale(site: Site, data: Tensor, scale: Tensor, offset: Tensor | None = None) -> Tensor:
    """Return scale (data - offset), both by block."""
    shifted = data.to(scale.dtype)
    if offset is not None:
        shifted = shifted - _blocks(offset.to(scale.dtype), data.shape)
    return shifted * _blocks(scale, data.shape)


@operator("constexpr_cast")
def constexpr_cast(site: Site, source_val: Tensor, output_dtype: str) -> Tensor:
    """Return a float16 weight, to be kept as float32."""
    return source_val.float()


@operator("constexpr_lut_to_dense")
def constexpr_lut_to_dense(
    site: Site, indices: Tensor, lut: Tensor, shape: Tensor | None = None, vector_axis: Tensor | None = None
) -> Tensor:
    """Return what a table has at the indices: packed ones and one table before iOS 18, tables by block from then on."""
    if shape is not None:
        sizes = ints(shape)
        count = int(torch.tensor(sizes).prod())
        return lut[_bits(indices, (len(lut) - 1).bit_length(), count)].reshape(sizes)
    axis = None if vector_axis is None else int(vector_axis) % indices.ndim
    tables = _blocks(lut, indices.shape)
    places = indices.long()[..., None, None].expand(*indices.shape, 1, lut.shape[-1])
    found = torch.gather(tables, -2, places).squeeze(-2)
    return found.squeeze(-1) if axis is None else found.movedim(-1, axis + 1).flatten(axis, axis + 1)


@operator("constexpr_sparse_to_dense")
def constexpr_sparse_to_dense(site: Site, nonzero_data: Tensor, mask: Tensor, shape: Tensor | None = None) -> Tensor:
    """Return the values at the places that a mask has, 0 elsewhere; packed bits before iOS 18."""
    if shape is not None:
        sizes = ints(shape)
        mask = _bits(mask, 1, int(torch.tensor(sizes).prod())).reshape(sizes)
    dense = torch.zeros(mask.shape, dtype=nonzero_data.dtype)
    return dense.masked_scatter(mask != 0, nonzero_data)


@operator("constexpr_lut_to_sparse")
def constexpr_lut_to_sparse(
    site: Site, indices_mask: Tensor, indices_nonzero_data: Tensor, lut: Tensor, vector_axis: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Look up the values that a mask has; return the mask, widened where a table holds vectors, and the values."""
    indices = constexpr_sparse_to_dense(site, indices_nonzero_data, indices_mask)
    dense = constexpr_lut_to_dense(site, indices, lut, None, vector_axis)
    mask = indices_mask
    if vector_axis is not None:
        mask = mask.repeat_interleave(lut.shape[-1], dim=int(vector_axis))
    return mask, dense[mask != 0]


@operator("constexpr_sparse_blockwise_shift_scale")
def constexpr_sparse_blockwise_shift_scale(
    site: Site, data_mask: Tensor, nonzero_data: Tensor, scale: Tensor, offset: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return the mask, and scale (data - offset) of the values that it has."""
    dense = constexpr_sparse_to_dense(site, nonzero_data, data_mask)
    return data_mask, constexpr_blockwise_shift_scale(site, dense, scale, offset)[data_mask != 0]


@operator("quantize")
def quantize(
    site: Site,
    input: Tensor,
    scale: Tensor,
    output_dtype: str,
    zero_point: Tensor | None = None,
    axis: Tensor | None = None,
) -> Tensor:
    """Return round(input / scale) + zero point, kept within the range of the integers."""
    declared = site.dtypes[0]
    assert declared is not None
    along = None if axis is None else int(axis)
    steps = torch.round(input / _along(scale, input, along))
    if zero_point is not None:
        steps = steps + _along(zero_point.to(steps.dtype), input, along)
    bounds = torch.iinfo(declared)
    return steps.clamp(bounds.min, bounds.max).to(declared)


@operator("dequantize")
def dequantize(
    site: Site, input: Tensor, scale: Tensor, zero_point: Tensor | None = None, axis: Tensor | None = None
) -> Tensor:
    """Return scale (input - zero point)."""
    return _dequantised(input, scale, zero_point, None if axis is None else int(axis))
