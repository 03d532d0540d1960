"""Weights that a file keeps compressed, and quantised activations."""

from inspect import signature

import torch
from torch import Tensor

from kokoro_nb.backends.coreml.coreml_private import decompression
from kokoro_nb.backends.mil.operators.registry import OperatorSite, operator, table


def _along(parameter: Tensor, x: Tensor, axis: int | None) -> Tensor:
    """Return a scalar as it is, and a vector with its elements along `axis` of `x`."""
    if not parameter.ndim or axis is None:
        return parameter
    return parameter.reshape(-1, *[1] * (x.ndim - 1 - axis % x.ndim))


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


@operator(
    *("constexpr_blockwise_shift_scale", "constexpr_sparse_blockwise_shift_scale", "constexpr_sparse_to_dense"),
    *("constexpr_lut_to_dense", "constexpr_lut_to_sparse"),
)
def decompressed(site: OperatorSite, **inputs: Tensor) -> Tensor | tuple[Tensor, ...]:
    """Return what coremltools makes of a compressed weight, in the precision of its table or of its scale."""
    function = decompression(site.type, site.opset)
    given = {name: inputs[name].numpy() if name in inputs else None for name in signature(function).parameters}
    found = function(**given)
    return tuple(map(torch.from_numpy, found)) if isinstance(found, tuple) else torch.from_numpy(found)


table(
    {
        "constexpr_cast": lambda source_val: source_val.float(),  # a float16 weight, to be stored as float32
        "constexpr_affine_dequantize": lambda quantized_data, zero_point, scale, axis: dequantize(
            quantized_data, scale, zero_point, int(axis)
        ),
    }
)
