"""Operators of ONNX Runtime's own domain, `com.microsoft`, that are found in files: quantised and fused ones."""

from typing import Any

import numpy as np

from kokoro_nb.inspection.semantics.convolution_semantics import convolved
from kokoro_nb.inspection.semantics.onnx_call import MICROSOFT, OnnxCall, meaning
from kokoro_nb.inspection.semantics.quantised import dynamic_parameters
from kokoro_nb.inspection.semantics.recurrences import activation, lstm
from kokoro_nb.inspection.value_types import Array, Input


def _dynamically(x: Array) -> tuple[Array, Array]:
    """Return `x` as a runtime quantises it to uint8 by its own range, less the zero point, and the scale."""
    scale, before = dynamic_parameters(x)
    zero = np.rint(before)
    return np.clip(np.rint(x / scale) + zero, 0, 255) - zero, scale


def _weights(values: Array, zero: Input, scale: Array, axis: int) -> Array:
    """Return weights as they were meant: per tensor, or per element of `axis`."""
    shape = tuple(-1 if k == axis % values.ndim else 1 for k in range(values.ndim))

    def fit(each: Array) -> Array:
        return each.reshape(()) if each.size == 1 else each.reshape(shape) if each.ndim == 1 else each

    less = 0 if zero is None else fit(np.asarray(zero, np.float64))
    return (values.astype(np.float64) - less) * fit(np.asarray(scale))


@meaning("DynamicQuantizeMatMul", domain=MICROSOFT)
def _dynamic_matmul(
    call: OnnxCall, a: Array, b: Array, b_scale: Array, b_zero: Input = None, bias: Input = None
) -> Array:
    integers, scale = _dynamically(a)
    result = np.matmul(integers, _weights(b, b_zero, b_scale, -1)) * scale
    return result if bias is None else result + bias


@meaning("MatMulIntegerToFloat", domain=MICROSOFT)
def _matmul_to_float(call: OnnxCall, a: Array, b: Array, a_scale: Array, b_scale: Array, *more: Input) -> Array:
    a_zero, b_zero, bias = [*more, None, None, None][:3]
    result = np.matmul(_weights(a, a_zero, a_scale, -2), _weights(b, b_zero, b_scale, -1))
    return result if bias is None else result + bias


@meaning("DynamicQuantizeLSTM", domain=MICROSOFT)
def _dynamic_lstm(call: OnnxCall, x: Array, w: Array, r: Array, *more: Any) -> tuple[Array, ...]:
    """Run an LSTM whose weights are (directions, width, 4 hidden) integers.

    The rows are quantised by the range of all of them, the state at each step by its own.
    """

    def rounded(values: Array) -> Array:
        integers, scale = _dynamically(values)
        return integers * scale

    *plain, w_scale, w_zero, r_scale, r_zero = more
    wide = [_directed(q, scale, zero) for q, scale, zero in ((w, w_scale, w_zero), (r, r_scale, r_zero))]
    return lstm(call, rounded(x), *(each.swapaxes(1, 2) for each in wide), *plain, rounded=rounded)


def _directed(values: Array, scale: Array, zero: Array) -> Array:
    """Return the weights of each direction: one scale for a direction, or one for each of its columns."""
    shape = (values.shape[0], 1, -1)
    return (values.astype(np.float64) - zero.astype(np.float64).reshape(shape)) * scale.reshape(shape)


@meaning("MatMulNBits", domain=MICROSOFT)
def _matmul_bits(
    call: OnnxCall, a: Array, b: Array, scales: Array, zeros: Input = None, order: Input = None, bias: Input = None
) -> Array:
    """Multiply by weights of a few bits, (N, blocks, bytes), the low bits first."""
    bits, block = call.get("bits", 4), call.get("block_size")
    columns, depth = call.get("N"), call.get("K")
    blocks = -(-depth // block)
    if order is not None:
        raise ValueError("a group index")
    integers = unpacked(b.reshape(columns, blocks, -1), bits)[..., :block].astype(np.float64)
    if zeros is None:
        less: Array = np.full((columns, blocks), float(2 ** (bits - 1)))
    elif zeros.dtype.kind == "f":
        less = zeros.reshape(columns, blocks)
    else:
        less = unpacked(zeros.reshape(columns, -1), bits)[:, :blocks].astype(np.float64)
    weights = (integers - less[..., None]) * scales.reshape(columns, blocks, 1)
    result = np.matmul(a, weights.reshape(columns, -1)[:, :depth].T)
    return result if bias is None else result + bias


def unpacked(values: Array, bits: int) -> Array:
    """Return integers of a few bits, of which each byte of the last axis holds several, the lowest first."""
    mask = (1 << bits) - 1
    parts = [(values >> shift) & mask for shift in range(0, 8, bits)]
    return np.stack(parts, axis=-1).reshape(*values.shape[:-1], -1)


@meaning("FusedMatMul", domain=MICROSOFT)
def _fused_matmul(call: OnnxCall, a: Array, b: Array) -> Array:
    if call.get("transBatchA", 0) or call.get("transBatchB", 0):
        raise ValueError("batches are transposed")
    a = a.swapaxes(-1, -2) if call.get("transA", 0) else a
    b = b.swapaxes(-1, -2) if call.get("transB", 0) else b
    return call.get("alpha", 1.0) * np.matmul(a, b)


@meaning("FusedConv", domain=MICROSOFT)
def _fused_conv(call: OnnxCall, x: Array, w: Array, b: Input = None, z: Input = None) -> Array:
    y = convolved(call, x, w, b)
    y = y if z is None else y + z
    alpha, beta = (iter(call.get("activation_params", ())[k : k + 1]) for k in (0, 1))
    name = call.get("activation")
    return activation(name, alpha, beta)(y) if name else y
