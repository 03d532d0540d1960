"""Quantised operators: integers exactly, and floats in float64 up to the one rounding that makes an integer."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from kokoro_nb.inspection.semantics.convolution_semantics import convolved
from kokoro_nb.inspection.semantics.onnx_call import MICROSOFT, OnnxCall, meaning, stored_as
from kokoro_nb.inspection.value_types import Array, Input

RANGES = {f"int{bits}": (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (2, 4, 8, 16, 32)} | {
    f"uint{bits}": (0, 2**bits - 1) for bits in (2, 4, 8, 16)
}


def scales_spread(values: Any, shape: tuple[int, ...], axis: int, block: int) -> Array:
    """Return scales or zero points in a shape that broadcasts to `shape`: per tensor, per axis or per block."""
    values = np.asarray(values)
    if values.size == 1:
        return values.reshape(())
    axis %= len(shape)
    if block or values.ndim == len(shape):
        each = block or -(-shape[axis] // values.shape[axis])
        return np.repeat(values, each, axis=axis).take(range(shape[axis]), axis=axis)
    return values.reshape(tuple(-1 if k == axis else 1 for k in range(len(shape))))


def _target(call: OnnxCall) -> str:
    """Return the name of the type that QuantizeLinear gives."""
    from onnx import helper

    if len(call.dtypes) > 2 and call.dtypes[2] is not None:
        return call.dtypes[2].name
    given = call.get("output_dtype", 0)
    return helper.tensor_dtype_to_np_dtype(given).name if given else "uint8"


def quantised_before_rounding(
    call: OnnxCall, x: Array, scale: Array, zero: Input = None, rounded: Callable[[Array], Array] = np.asarray
) -> Array:
    """Return the float that QuantizeLinear rounds to an integer, cut to the range of that."""
    axis, block = call.get("axis", 1), call.get("block_size", 0)
    y = rounded(x / scales_spread(scale, x.shape, axis, block))
    if zero is not None:
        y = y + scales_spread(zero.astype(np.float64), x.shape, axis, block)
    return np.clip(y, *RANGES[_target(call)])


@meaning("QuantizeLinear")
@meaning("QuantizeLinear", domain=MICROSOFT)
def _quantize(call: OnnxCall, x: Array, scale: Array, zero: Input = None) -> Array:
    name = _target(call)
    if name.startswith(("float", "bfloat")):
        from onnx import helper

        y = x / scales_spread(scale, x.shape, call.get("axis", 1), call.get("block_size", 0))
        to = call.get("output_dtype", 0) or helper.np_dtype_to_tensor_dtype(call.dtypes[2])
        return stored_as(call, y.astype(np.float32), to)
    stored = name if name not in ("int2", "int4", "uint2", "uint4") else name.rstrip("24") + "8"
    return quantised_before_rounding(call, x, scale, zero, np.rint).astype(stored)


@meaning("DequantizeLinear")
@meaning("DequantizeLinear", domain=MICROSOFT)
def _dequantize(call: OnnxCall, x: Array, scale: Array, zero: Input = None) -> Array:
    return linear(x, scale, zero, call.get("axis", 1), call.get("block_size", 0))


@meaning("DynamicQuantizeLinear")
def dynamic_quantize(call: OnnxCall, x: Array) -> tuple[Array, ...]:
    """Return the integers of floats in the range of all of them, uint8 with 0 in it, their scale and zero point."""
    low, high = np.minimum(0, x.min(initial=0)), np.maximum(0, x.max(initial=0))
    scale = np.asarray((high - low) / 255 if high > low else 1.0)
    zero = np.rint(np.clip(-low / scale, 0, 255))
    return np.clip(np.rint(x / scale) + zero, 0, 255).astype(np.uint8), scale, zero.astype(np.uint8)


def linear(values: Array, scale: Input = None, zero: Input = None, axis: int = -1, block: int = 0) -> Array:
    """Return what integers mean, in float64: sums of them are exact below 2^53."""
    wide = values.astype(np.float64)
    wide = wide if zero is None else wide - scales_spread(zero.astype(np.float64), wide.shape, axis, block)
    return wide if scale is None else wide * scales_spread(scale, wide.shape, axis, block)


Rounded = tuple[Array, Any, Input]  # what is rounded, times its scale; the scale, and the zero point
BEFORE_ROUNDING: dict[tuple[str, str], Any] = {}
"""What the operators that round to an integer round: two values an integer apart may both be right beside a tie."""


def _rounding(*operators: str, domain: str = "") -> Callable[[Callable[..., Rounded]], Callable[..., Rounded]]:
    """Register what operators give before they are rounded to an integer, and after; a scale of None rounds nothing."""

    def register(function: Callable[..., Rounded]) -> Callable[..., Rounded]:
        def rounding(call: OnnxCall, *inputs: Array, before: bool = False) -> Array:
            y, scale, zero = function(call, *inputs)
            if scale is None:
                return y
            zero = np.zeros((), inputs[0].dtype) if zero is None else zero
            result = y / np.reshape(scale, ()) + float(zero.reshape(()))
            result = np.clip(result if before else np.rint(result), *RANGES[zero.dtype.name])
            return result if before else result.astype(zero.dtype)

        meaning(*operators, domain=domain)(rounding)
        BEFORE_ROUNDING.update({(domain, operator): partial(rounding, before=True) for operator in operators})
        return function

    return register


NOT = (-1, -1)  # read
# The float operator that one stands for, which has the same attributes, and places among its inputs: of either factor,
# its scale and its zero point; of what is added, an integer in the unit of both scales or, after a MatMul, a float; of
# the scale and zero point of the integers that it gives. What it does not read is -1.
ON_INTEGERS = {
    ("", "QLinearConv"): ("Conv", (0, 1, 2), (3, 4, 5), 8, (6, 7)),
    ("", "QLinearMatMul"): ("MatMul", (0, 1, 2), (3, 4, 5), -1, (6, 7)),
    ("", "ConvInteger"): ("Conv", (0, -1, 2), (1, -1, 3), -1, NOT),
    ("", "MatMulInteger"): ("MatMul", (0, -1, 2), (1, -1, 3), -1, NOT),
    (MICROSOFT, "QGemm"): ("Gemm", (0, 1, 2), (3, 4, 5), 6, (7, 8)),
    (MICROSOFT, "MatMulIntegerToFloat"): ("MatMul", (0, 2, 4), (1, 3, 5), 6, NOT),
    (MICROSOFT, "DynamicQuantizeMatMul"): ("MatMul", (0, -1, -1), (1, 2, 3), 4, NOT),
    (MICROSOFT, "MatMulNBits"): ("MatMul", (0, -1, -1), (1, 2, 3), 5, NOT),
}
LONGEST = 9  # inputs of one of them


@_rounding("QLinearConv", "QLinearMatMul")
@_rounding("QGemm", "MatMulIntegerToFloat", "DynamicQuantizeMatMul", domain=MICROSOFT)
def _layer(call: OnnxCall, *given: Input) -> Rounded:
    """Return a layer on integers, before it is rounded: the float operator on what they mean."""
    kind, left, right, place, after = ON_INTEGERS[call.domain, call.node.op_type]
    inputs: list[Any] = [*given, *[None] * LONGEST]
    x, w, y = ([inputs[k] for k in places] for places in (left, right, after))
    if left[1] < 0 <= right[1]:
        x = list(dynamic_quantize(call, x[0]))
    a, b = linear(x[0], x[1], x[2], -2), linear(w[0], w[1], w[2], weight_axis(call, kind))
    if kind == "Conv":
        value = convolved(call, a, b)
    else:
        a, b = (each.T if call.get(name, 0) else each for name, each in (("transA", a), ("transB", b)))
        value = np.matmul(a, b) * call.get("alpha", 1.0)
    bias = inputs[place]
    if bias is not None and kind != "MatMul":
        bias = linear(bias, x[1] * w[1]).reshape(bias.shape if kind == "Gemm" else (-1, *[1] * (value.ndim - 2)))
    return value if bias is None else value + bias, *y


def weight_axis(call: OnnxCall, kind: str) -> int:
    """Return the axis of the weights of a layer, of the float operator `kind`, along which they may have scales."""
    return {"Conv": 0, "MatMul": -1}.get(kind, 1 - call.get("transB", 0))


@meaning("MatMulInteger", "ConvInteger")
def _sum_of_integers(call: OnnxCall, *inputs: Input) -> Array:
    """Return a sum as an accumulator of 32 bits would hold it."""
    return np.rint(_layer(call, *inputs)[0]).astype(np.int64).astype(np.int32)


@_rounding("QLinearAdd", "QLinearMul", domain=MICROSOFT)
def _qlinear_binary(call: OnnxCall, *inputs: Any) -> Rounded:
    """Return QLinearAdd or QLinearMul of ONNX Runtime, before it is rounded."""
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = [*inputs, None][:8]
    left, right = linear(a, a_scale, a_zero), linear(b, b_scale, b_zero)
    result = left + right if call.node.op_type == "QLinearAdd" else left * right
    return result, y_scale, y_zero


@_rounding("QLinearSigmoid", "QLinearLeakyRelu", "QLinearGlobalAveragePool", domain=MICROSOFT)
def _qlinear_unary(call: OnnxCall, *inputs: Any) -> Rounded:
    """Return one of ONNX Runtime's operators of one input, before it is rounded."""
    x, x_scale, x_zero, y_scale, y_zero = [*inputs, None][:5]
    value = linear(x, x_scale, x_zero)
    if call.node.op_type == "QLinearSigmoid":
        value = 1 / (1 + np.exp(-value))
    elif call.node.op_type == "QLinearLeakyRelu":
        value = np.where(value < 0, call.get("alpha", 0.01) * value, value)
    else:
        axes = tuple(range(1, value.ndim - 1) if call.get("channels_last", 0) else range(2, value.ndim))
        value = value.mean(axis=axes, keepdims=True)
    return value, y_scale, y_zero


BEFORE_ROUNDING |= dict.fromkeys((("", "QuantizeLinear"), (MICROSOFT, "QuantizeLinear")), quantised_before_rounding)
