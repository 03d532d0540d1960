"""Quantised operators: integers exactly, and floats in float64 up to the one rounding that makes an integer.

An operator on integers with its scales (QOperator), or whose scales are found while running (dynamic), is written out:
a float operator between DequantizeLinear and QuantizeLinear. So there is one form to compute, to measure and to put
into a file.
"""

from collections import ChainMap
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from kokoro_nb.inspection.semantics.onnx_call import MEANINGS, OnnxCall, call_on, computed, meaning, stored_as
from kokoro_nb.inspection.value_types import Array, Arrays, Input, Value

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


@meaning("QuantizeLinear", "com.microsoft.QuantizeLinear")
def _quantize(call: OnnxCall, x: Array, scale: Array, zero: Input = None) -> Array:
    name = _target(call)
    if name.startswith(("float", "bfloat")):
        y = x / scales_spread(scale, x.shape, call.get("axis", 1), call.get("block_size", 0))
        return stored_as(call, y.astype(np.float32), name)
    stored = name if name not in ("int2", "int4", "uint2", "uint4") else name.rstrip("24") + "8"
    return quantised_before_rounding(call, x, scale, zero, np.rint).astype(stored)


@meaning("DequantizeLinear", "com.microsoft.DequantizeLinear")
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


NOT = (-1, -1)  # read
NONE = (-1, -1, -1)
# The float operator that one stands for, which has the same attributes, and places among its inputs: of either operand,
# its scale and its zero point; of what is added, an integer in the unit of both scales or, after a MatMul, a float; of
# the scale and zero point of the integers that it gives. What it does not read is -1.
ON_INTEGERS = {
    "QLinearConv": ("Conv", (0, 1, 2), (3, 4, 5), 8, (6, 7)),
    "QLinearMatMul": ("MatMul", (0, 1, 2), (3, 4, 5), -1, (6, 7)),
    "ConvInteger": ("Conv", (0, -1, 2), (1, -1, 3), -1, NOT),
    "MatMulInteger": ("MatMul", (0, -1, 2), (1, -1, 3), -1, NOT),
    "com.microsoft.QGemm": ("Gemm", (0, 1, 2), (3, 4, 5), 6, (7, 8)),
    "com.microsoft.MatMulIntegerToFloat": ("MatMul", (0, 2, 4), (1, 3, 5), 6, NOT),
    "com.microsoft.DynamicQuantizeMatMul": ("MatMul", (0, -1, -1), (1, 2, 3), 4, NOT),
    "com.microsoft.MatMulNBits": ("MatMul", (0, -1, -1), (1, 2, 3), 5, NOT),
    "com.microsoft.QLinearAdd": ("Add", (0, 1, 2), (3, 4, 5), -1, (6, 7)),
    "com.microsoft.QLinearMul": ("Mul", (0, 1, 2), (3, 4, 5), -1, (6, 7)),
    "com.microsoft.QLinearSigmoid": ("Sigmoid", (0, 1, 2), NONE, -1, (3, 4)),
    "com.microsoft.QLinearLeakyRelu": ("LeakyRelu", (0, 1, 2), NONE, -1, (3, 4)),
    "com.microsoft.QLinearGlobalAveragePool": ("GlobalAveragePool", (0, 1, 2), NONE, -1, (3, 4)),
}
LONGEST = 9  # inputs of one of them


@dataclass(frozen=True, eq=False)
class WrittenOut:
    """An operator on integers, written out.

    Attributes
    ----------
    form : str
        ``QOperator``, ``dynamic`` or ``weights only``.
    nodes : list of onnx.NodeProto
        In order; the integers or floats that the operator gives have the name that they have in the file.
    constants : dict of str to numpy.ndarray
        What they read besides.
    product : str
        What the float operator gives.
    result : str
        The float that the operator gives; empty of a sum of integers whose scales are not given.
    """

    form: str
    nodes: list[Any]
    constants: Arrays
    product: str
    result: str


def written_out(call: OnnxCall, known: Arrays, name: str = "", sums: tuple[str, str, str] = ("", "", "")) -> WrittenOut:
    """Return an operator of `ON_INTEGERS` as a float operator between DequantizeLinear and QuantizeLinear.

    Parameters
    ----------
    call : OnnxCall
        The node.
    known : mapping of str to numpy.ndarray
        Constants; weights of few bits are among them.
    name : str
        Of the float operator's node.
    sums : tuple of str
        Of a sum of integers: the float that it becomes in a later node, and the scales of its operands.

    Raises
    ------
    ValueError
        If the columns of weights of few bits are in another order.
    """
    from onnx import helper

    kind, left, right, place, given = ON_INTEGERS[call.operator]
    inputs, stem = [*call.node.input, *[""] * LONGEST], f"{call.node.output[0]}_unrounded"
    x, w, y = ([inputs[k] for k in places] for places in (left, right, given))
    result, bias, form = call.node.output[0], inputs[place], "dynamic" if given == NOT else "QOperator"
    nodes: list[Any] = []
    own: dict[str, Array] = {}
    every: Any = ChainMap(own, known)  # type: ignore[arg-type]

    def add(kind: str, inputs: list[str], *outputs: str, name: str = "", **attributes: Any) -> str:
        nodes.append(helper.make_node(kind, [*filter(None, inputs)], outputs, name=name or outputs[0], **attributes))
        return outputs[0]

    def dequantised(end: str, axis: int, name: str, *scaled: str, **more: Any) -> str:
        if not scaled[0]:
            return name
        count = max(np.size(every.get(one, 0)) for one in scaled)
        names, about = [name, *scaled], {"axis": axis, **more} if count > 1 else more
        for k, one in enumerate(scaled, 1):
            array = np.asarray(every.get(one, 0))
            if array.ndim and array.size == max(array.shape) and not more:  # one zero point may be that of all
                names[k] = f"{stem}_{end}_{k}"
                own[names[k]] = np.resize(array, [count] if about else ())
        return add("DequantizeLinear", names, f"{stem}_{end}", **about)

    attributes, block = call.attributes, {}
    axis = {"Conv": 0, "MatMul": -1}.get(kind, 1 - call.get("transB", 0))
    if right[0] >= 0 > right[1]:  # a later node multiplies by the scales
        own[f"{stem}_one"] = np.ones((), np.float32)
        result, (x[1], w[1]) = sums[0], (one or f"{stem}_one" for one in sums[1:])
    elif call.node.op_type == "MatMulNBits":
        if inputs[4]:
            raise ValueError("a group index")
        packed: list[Any] = [known[one] if one else None for one in w]
        w = [f"{stem}_{one}" for one in ("integers", "steps", "less")]
        own.update(zip(w, _of_few_bits(call, *packed), strict=True))
        form, axis, attributes, block = "weights only", 0, {}, {"block_size": call.get("block_size")}
    elif left[1] < 0:  # it makes integers of it itself
        names = [f"{stem}_{one}" for one in ("integers", "step", "less")]
        add("DynamicQuantizeLinear", x[:1], *names)
        x = names
    factors = [dequantised("x", -2, *x), dequantised("w", axis, *w, **block)]
    if bias and kind != "MatMul":
        own[f"{stem}_unit"] = np.ravel(known[x[1]]) * np.ravel(known[w[1]])
        factors.append(dequantised("bias", -1, bias, f"{stem}_unit"))
    added = bias if kind == "MatMul" else ""
    product = f"{stem}_y" if added or y[0] or not result else result
    add(kind, factors, product, name=name, **attributes)
    if added:
        add("Add", [product, added], result)
    if y[0]:
        if not y[1] and x[0] in known:
            y[1] = f"{stem}_zero"
            own[y[1]] = np.zeros((), known[x[0]].dtype)
        add("QuantizeLinear", [product, *y], result)
        result = product
    return WrittenOut(form, nodes, own, product, result)


def _of_few_bits(call: OnnxCall, packed: Array, scales: Array, zeros: Input) -> tuple[Array, Array, Array]:
    """Return the integers of MatMulNBits as (K, N), and their scales and zero points as (blocks, N)."""
    bits, columns, block = call.get("bits", 4), call.get("N"), call.get("block_size")
    blocks = -(-call.get("K") // block)

    def unpacked(values: Array) -> Array:
        """Return the integers of which each byte of the last axis holds several, the lowest first."""
        parts = [(values >> shift) & ((1 << bits) - 1) for shift in range(0, 8, bits)]
        return np.stack(parts, axis=-1).reshape(*values.shape[:-1], -1)

    integers = unpacked(packed.reshape(columns, blocks, -1))[..., :block].reshape(columns, -1)[:, : call.get("K")]
    if zeros is None:
        zeros = np.full((columns, blocks), 2 ** (bits - 1))
    elif zeros.dtype.kind != "f":
        zeros = unpacked(zeros.reshape(columns, -1))[:, :blocks]
    return integers.T, scales.reshape(columns, blocks).T, zeros.reshape(columns, blocks).T


def _on_integers(call: OnnxCall, *inputs: Input, before: bool = False) -> Any:
    """Return what an operator on integers gives, or, `before`, what it rounds to an integer."""
    values: dict[str, Value] = {name: one for name, one in zip(call.node.input, inputs, strict=False) if name}
    written = written_out(call, values)
    values.update(written.constants)
    for node in written.nodes:
        inner, given = call_on(node, call.opsets, values)
        if before and node.op_type == "QuantizeLinear":
            return quantised_before_rounding(inner, *given)
        values.update(zip(node.output, computed(inner, given), strict=True))
    if written.result:
        return values[call.node.output[0]]
    return np.rint(values[written.product]).astype(np.int64).astype(np.int32)  # as an accumulator of 32 bits holds it


MEANINGS |= dict.fromkeys(ON_INTEGERS, _on_integers)
BEFORE_ROUNDING: dict[str, Any] = {
    **dict.fromkeys(("QuantizeLinear", "com.microsoft.QuantizeLinear"), quantised_before_rounding),
    **{key: partial(_on_integers, before=True) for key, (*_, given) in ON_INTEGERS.items() if given != NOT},
}
"""What the operators that round to an integer round: two values an integer apart may both be right beside a tie."""
