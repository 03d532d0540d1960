"""Quantised operators: integers exactly, and floats in float64 up to the one rounding that makes an integer."""

from collections.abc import Callable
from typing import Any

import numpy as np

from kokoro_nb.inspection.semantics.convolution_semantics import convolved
from kokoro_nb.inspection.semantics.onnx_call import MICROSOFT, OnnxCall, meaning
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
        from onnx.reference.ops.op_cast import cast_to

        y = x / scales_spread(scale, x.shape, call.get("axis", 1), call.get("block_size", 0))
        to = call.get("output_dtype", 0) or helper.np_dtype_to_tensor_dtype(call.dtypes[2])
        return cast_to(y.astype(np.float32), to, bool(call.get("saturate", 1)))
    stored = name if name not in ("int2", "int4", "uint2", "uint4") else name.rstrip("24") + "8"
    return quantised_before_rounding(call, x, scale, zero, np.rint).astype(stored)


@meaning("DequantizeLinear")
@meaning("DequantizeLinear", domain=MICROSOFT)
def _dequantize(call: OnnxCall, x: Array, scale: Array, zero: Input = None) -> Array:
    axis, block = call.get("axis", 1), call.get("block_size", 0)
    y = x.astype(scale.dtype)
    if zero is not None:
        y = y - scales_spread(zero, x.shape, axis, block).astype(scale.dtype)
    return y * scales_spread(scale, x.shape, axis, block)


def dynamic_parameters(x: Array) -> tuple[Array, Array]:
    """Return scale and zero point (before it is rounded) of DynamicQuantizeLinear: uint8, with 0 in range."""
    low, high = np.minimum(0, x.min(initial=0)), np.maximum(0, x.max(initial=0))
    scale = (high - low) / 255 if high > low else np.asarray(1.0)
    return np.asarray(scale), np.clip(-low / scale, 0, 255)


@meaning("DynamicQuantizeLinear")
def _dynamic_quantize(call: OnnxCall, x: Array) -> tuple[Array, ...]:
    scale, before = dynamic_parameters(x)
    zero = np.rint(before)
    return np.clip(np.rint(x / scale) + zero, 0, 255).astype(np.uint8), scale, zero.astype(np.uint8)


def _centred(values: Array, zero: Input, axis: int | None = None) -> Array:
    """Return integers less their zero point, in float64: exact as long as sums stay below 2^53."""
    wide = values.astype(np.float64)
    if zero is None:
        return wide
    zero = np.asarray(zero, np.float64)
    if zero.size == 1 or axis is None or zero.ndim > 1:
        return wide - (zero.reshape(()) if zero.size == 1 else zero)
    return wide - zero.reshape(tuple(-1 if k == axis % wide.ndim else 1 for k in range(wide.ndim)))


def _wrapped(values: Array) -> Array:
    """Return integers held in float64 as int32, as an accumulator of 32 bits would hold them."""
    return values.astype(np.int64).astype(np.int32)


@meaning("MatMulInteger")
def _matmul_integer(call: OnnxCall, a: Array, b: Array, a_zero: Input = None, b_zero: Input = None) -> Array:
    return _wrapped(np.matmul(_centred(a, a_zero, -2), _centred(b, b_zero, -1)))


@meaning("ConvInteger")
def _conv_integer(call: OnnxCall, x: Array, w: Array, x_zero: Input = None, w_zero: Input = None) -> Array:
    return _wrapped(np.rint(convolved(call, _centred(x, x_zero), _centred(w, w_zero, 0))))


def _requantised(y: Array, scale: Any, zero: Array, before: bool) -> Array:
    low, high = RANGES[zero.dtype.name]
    result = y / float(np.asarray(scale).reshape(())) + float(zero.reshape(()))
    return np.clip(result if before else np.rint(result), low, high)


def _linear(y: Array, scale: Any, zero: Input) -> Array:
    return _centred(y, zero) * np.asarray(scale)


Rounded = tuple[Array, Any, Array]  # what is rounded, times its scale; the scale, and the zero point
BEFORE_ROUNDING: dict[tuple[str, str], Any] = {}
"""What the operators that round to an integer round: two values an integer apart may both be right beside a tie."""


def _rounding(*operators: str, domain: str = "") -> Callable[[Callable[..., Rounded]], Callable[..., Rounded]]:
    """Register what operators give before they are rounded to an integer, and after; a scale of None rounds nothing."""

    def register(function: Callable[..., Rounded]) -> Callable[..., Rounded]:
        def before(call: OnnxCall, *inputs: Array) -> Array:
            y, scale, zero = function(call, *inputs)
            return y if scale is None else _requantised(y, scale, zero, True)

        def after(call: OnnxCall, *inputs: Array) -> Array:
            y, scale, zero = function(call, *inputs)
            return y if scale is None else _requantised(y, scale, zero, False).astype(zero.dtype)

        meaning(*operators, domain=domain)(after)
        BEFORE_ROUNDING.update({(domain, operator): before for operator in operators})
        return function

    return register


@_rounding("QLinearConv")
def _qlinear_conv(call: OnnxCall, *inputs: Array) -> Rounded:
    """Return QLinearConv, before it is rounded."""
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, *bias = inputs
    total = np.rint(convolved(call, _centred(x, x_zero), _centred(w, w_zero, 0)))
    channels = (1, -1) + (1,) * (x.ndim - 2)
    if bias and bias[0] is not None:
        total = total + bias[0].astype(np.float64).reshape(channels)
    scale = np.asarray(x_scale) * np.asarray(w_scale).reshape(channels if np.size(w_scale) > 1 else ())
    return total * scale, y_scale, y_zero


@_rounding("QLinearMatMul")
def _qlinear_matmul(call: OnnxCall, *inputs: Array) -> Rounded:
    """Return QLinearMatMul, before it is rounded."""
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = inputs
    left = _centred(a, a_zero, -2) * (np.reshape(a_scale, (-1, 1)) if np.ndim(a_scale) == 1 else a_scale)
    return np.matmul(left, _linear(b, b_scale, b_zero)), y_scale, y_zero


@_rounding("QLinearAdd", "QLinearMul", domain=MICROSOFT)
def _qlinear_binary(call: OnnxCall, *inputs: Array) -> Rounded:
    """Return QLinearAdd or QLinearMul of ONNX Runtime, before it is rounded."""
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, *rest = inputs
    y_zero = rest[0] if rest and rest[0] is not None else np.zeros((), a.dtype)
    left, right = _linear(a, a_scale, a_zero), _linear(b, b_scale, b_zero)
    result = left + right if call.node.op_type == "QLinearAdd" else left * right
    return result, y_scale, y_zero


@_rounding("QLinearSigmoid", "QLinearLeakyRelu", "QLinearGlobalAveragePool", domain=MICROSOFT)
def _qlinear_unary(call: OnnxCall, *inputs: Array) -> Rounded:
    """Return one of ONNX Runtime's operators of one input, before it is rounded."""
    x, x_scale, x_zero, y_scale, *rest = inputs
    y_zero = rest[0] if rest and rest[0] is not None else np.zeros((), x.dtype)
    value = _linear(x, x_scale, x_zero)
    if call.node.op_type == "QLinearSigmoid":
        value = 1 / (1 + np.exp(-value))
    elif call.node.op_type == "QLinearLeakyRelu":
        value = np.where(value < 0, call.get("alpha", 0.01) * value, value)
    else:
        axes = tuple(range(1, value.ndim - 1) if call.get("channels_last", 0) else range(2, value.ndim))
        value = value.mean(axis=axes, keepdims=True)
    return value, y_scale, y_zero


@_rounding("QGemm", domain=MICROSOFT)
def _qgemm(call: OnnxCall, *inputs: Array) -> Rounded:
    """Return ONNX Runtime's QGemm, in floats where it has no output scale."""
    a, a_scale, a_zero, b, b_scale, b_zero, *rest = inputs
    more: list[Any] = [*rest, None, None, None]
    bias, y_scale, y_zero = more[:3]
    left, right = _centred(a, a_zero), _centred(b, b_zero, 0 if call.get("transB", 0) else 1)
    left, right = left.T if call.get("transA", 0) else left, right.T if call.get("transB", 0) else right
    total = left @ right * call.get("alpha", 1.0)
    total = total if bias is None else total + bias
    value = total * (np.asarray(a_scale) * np.asarray(b_scale))
    return value, y_scale, y_zero


BEFORE_ROUNDING |= dict.fromkeys((("", "QuantizeLinear"), (MICROSOFT, "QuantizeLinear")), quantised_before_rounding)
