"""Operators of ONNX Runtime's own domain, `com.microsoft`, that are found in files: quantised and fused ones."""

from typing import Any

import numpy as np

from kokoro_nb.inspection.semantics.convolution_semantics import convolved
from kokoro_nb.inspection.semantics.onnx_call import MICROSOFT, OnnxCall, meaning
from kokoro_nb.inspection.semantics.quantised import dynamic_quantize, linear
from kokoro_nb.inspection.semantics.recurrences import activation, lstm
from kokoro_nb.inspection.value_types import Array, Input


@meaning("DynamicQuantizeLSTM", domain=MICROSOFT)
def _dynamic_lstm(call: OnnxCall, x: Array, w: Array, r: Array, *more: Any) -> tuple[Array, ...]:
    """Run an LSTM whose weights are (directions, width, 4 hidden) integers.

    The rows are quantised by the range of all of them, the state at each step by its own.
    """

    def rounded(values: Array) -> Array:
        return linear(*dynamic_quantize(call, values))

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
