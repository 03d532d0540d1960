"""Weights that a file keeps compressed, and quantised activations."""

from math import prod

import torch
from torch import Tensor

from kokoro_nb.backends.mil.operators.registry import OperatorSite, operator, table


def _along(parameter: Tensor, x: Tensor, axis: int | None) -> Tensor:
    """Return a scalar as it is, and a vector with its elements along `axis` of `x`."""
    if not parameter.ndim or axis is None:
        return parameter
    return parameter.reshape(-1, *[1] * (x.ndim - 1 - axis % x.ndim))


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


@operator("quantize")
def quantize(
    site: OperatorSite, input: Tensor, scale: Tensor, zero_point: Tensor | None = None, axis: int | None = None
) -> Tensor:
    """Return round(input / scale) + zero point, clamped to the range of the integers."""
    (declared,) = site.dtypes
    assert declared is not None
    steps = torch.round(input / _along(scale, input, axis))
    if zero_point is not None:
        steps = steps + _along(zero_point.to(steps.dtype), input, axis)
    bounds = torch.iinfo(declared)
    return steps.clamp(bounds.min, bounds.max).to(declared)


@operator("dequantize")
def dequantize(input: Tensor, scale: Tensor, zero_point: Tensor | None = None, axis: int | None = None) -> Tensor:
    """Return scale (input - zero point), both by place along an axis or one for all."""
    x, factor = input.to(scale.dtype), _along(scale, input, axis)
    return x * factor if zero_point is None else (x - _along(zero_point.to(scale.dtype), x, axis)) * factor


@operator("constexpr_blockwise_shift_scale")
def constexpr_blockwise_shift_scale(data: Tensor, scale: Tensor, offset: Tensor | None = None) -> Tensor:
    """Return scale (data - offset), both by block."""
    shifted = data.to(scale.dtype)
    if offset is not None:
        shifted = shifted - _blocks(offset.to(scale.dtype), data.shape)
    return shifted * _blocks(scale, data.shape)


table(
    {
        "constexpr_cast": lambda source_val: source_val.float(),  # a float16 weight, to be stored as float32
        "constexpr_affine_dequantize": lambda quantized_data, zero_point, scale, axis: dequantize(
            quantized_data, scale, zero_point, int(axis)
        ),
    }
)


@operator("constexpr_lut_to_dense")
def constexpr_lut_to_dense(
    indices: Tensor, lut: Tensor, shape: list[int] | None = None, vector_axis: int | None = None
) -> Tensor:
    """Return what a table has at the indices: packed ones and one table before iOS 18, tables by block from then on."""
    if shape is not None:
        return lut[_bits(indices, (len(lut) - 1).bit_length(), prod(shape))].reshape(shape)
    tables = _blocks(lut, indices.shape)
    places = indices.long()[..., None, None].expand(*indices.shape, 1, lut.shape[-1])
    found = torch.gather(tables, -2, places).squeeze(-2)
    if vector_axis is None:
        return found.squeeze(-1)
    axis = vector_axis % indices.ndim
    return found.movedim(-1, axis + 1).flatten(axis, axis + 1)


@operator("constexpr_sparse_to_dense")
def constexpr_sparse_to_dense(nonzero_data: Tensor, mask: Tensor, shape: list[int] | None = None) -> Tensor:
    """Return the values at the places that a mask has, 0 elsewhere; packed bits before iOS 18."""
    mask = mask if shape is None else _bits(mask, 1, prod(shape)).reshape(shape)
    return torch.zeros(mask.shape, dtype=nonzero_data.dtype).masked_scatter(mask != 0, nonzero_data)


@operator("constexpr_lut_to_sparse")
def constexpr_lut_to_sparse(
    indices_mask: Tensor, indices_nonzero_data: Tensor, lut: Tensor, vector_axis: int | None = None
) -> tuple[Tensor, Tensor]:
    """Look up the values that a mask has; return the mask, widened where a table holds vectors, and the values."""
    indices = constexpr_sparse_to_dense(indices_nonzero_data, indices_mask)
    dense = constexpr_lut_to_dense(indices, lut, None, vector_axis)
    mask = indices_mask if vector_axis is None else indices_mask.repeat_interleave(lut.shape[-1], dim=vector_axis)
    return mask, dense[mask != 0]


@operator("constexpr_sparse_blockwise_shift_scale")
def constexpr_sparse_blockwise_shift_scale(
    data_mask: Tensor, nonzero_data: Tensor, scale: Tensor, offset: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return the mask, and scale (data - offset) of the values that it has."""
    dense = constexpr_sparse_to_dense(nonzero_data, data_mask)
    return data_mask, constexpr_blockwise_shift_scale(dense, scale, offset)[data_mask != 0]
