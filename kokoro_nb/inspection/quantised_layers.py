"""Layers with integer weights, recognised by what their operators are, whichever tool wrote them, never by their names.

Four forms: float operators between DequantizeLinear and QuantizeLinear (QDQ), operators on integers with their scales
(QOperator), operators on integers whose scales are found while running (dynamic), and integer weights alone.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kokoro_nb.inspection.onnx_nodes import OnnxNode
from kokoro_nb.inspection.semantics.contributed import unpacked
from kokoro_nb.inspection.semantics.convolution_semantics import convolved
from kokoro_nb.inspection.semantics.onnx_call import MICROSOFT, OnnxCall, computed, widened
from kokoro_nb.inspection.semantics.quantised import dynamic_parameters, scales_spread
from kokoro_nb.inspection.value_types import Arrays, Several, Value, Values

PRODUCTS = ("Conv", "ConvTranspose", "MatMul", "Gemm")


@dataclass(frozen=True, eq=False)
class Operand:
    """One factor of a product.

    Attributes
    ----------
    values : numpy.ndarray, float64
        What the layer computes with: integers times their scale.
    name : str
        Of the value that carries the rounding of an activation; empty if it has none.
    variance : numpy.ndarray or None, float64
        Of weights: the variance of the rounding that made integers of them, a twelfth of the square of the step.
    error : numpy.ndarray or None, float64
        What rounding inside of the layer itself does to it.
    """

    values: np.ndarray
    name: str = ""
    variance: np.ndarray | None = None
    error: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class QuantisedLayer:
    """One product on values that were rounded to integers.

    Attributes
    ----------
    form : str
        ``QDQ``, ``QOperator``, ``dynamic`` or ``weights only``.
    left, right : Operand
        The factors.
    product : callable
        Returns the product of two arrays in float64, without bias.
    bias : numpy.ndarray or float
        What is added, in the unit of the output.
    given : numpy.ndarray, float64
        The output on the runtime, in the same unit; its integers where `step` is given.
    step : tuple or None
        Scale, zero point and type of the integers that it gives; None if it gives floats.
    gain : float
        By which `product` multiplies besides.
    """

    form: str
    left: Operand
    right: Operand
    product: Callable[[np.ndarray, np.ndarray], np.ndarray]
    bias: Any
    given: np.ndarray
    step: tuple[np.ndarray, np.ndarray, np.dtype] | None = None
    gain: float = 1.0


def layer_of(
    call: OnnxCall, inputs: Several, given: Value, weights: Arrays, rounded: Values, steps: tuple[Value, Value]
) -> QuantisedLayer | None:
    """Return a node as a layer with integer weights or activations; None if it is none.

    Parameters
    ----------
    call : OnnxCall
        The node.
    inputs : sequence of values
        What went into it on the runtime.
    given : value
        Its first output there.
    weights : mapping of str to numpy.ndarray
        Variance of the rounding of each float value that was dequantised from a constant.
    rounded : mapping of str to anything
        The values that were rounded while running.
    steps : pair of numpy.ndarray or None
        Scales of the input and of the weights of a product of integers, which does not read them itself.
    """
    names = list(call.node.input)
    if call.domain == "" and call.node.op_type in PRODUCTS:
        if not any(name in weights or name in rounded for name in names[:2]):
            return None
        left, right = (
            Operand(np.asarray(widened(value)), name if name in rounded else "", weights.get(name))
            for name, value in zip(names[:2], inputs[:2], strict=True)
        )
        added = inputs[2] if len(inputs) > 2 and inputs[2] is not None else None

        def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
            rest = [] if len(inputs) < 3 else [None if added is None else np.zeros(np.shape(added))]
            return np.asarray(computed(call, [a, b, *rest])[0])

        bias = 0.0 if added is None else computed(call, [np.zeros(left.values.shape), right.values, added])[0]
        return QuantisedLayer(
            "QDQ", left, right, product, bias, np.asarray(widened(given)), gain=call.get("alpha", 1.0)
        )
    names = [name if k == 0 or name in rounded else "" for k, name in enumerate(names)]  # of activations alone
    maker = _MAKERS.get((call.domain, call.node.op_type))
    return None if maker is None else maker(call, names, [*inputs, *[None] * 8], np.asarray(given), steps)


def _integers(values: np.ndarray, scale: Any, zero: Value, axis: int, name: str = "") -> Operand:
    """Return integers with a scale, per tensor or along an axis; those without a name are weights."""
    wide = values.astype(np.float64)
    steps = np.broadcast_to(scales_spread(np.asarray(scale, np.float64), wide.shape, axis, 0), wide.shape)
    less = 0 if zero is None else scales_spread(np.asarray(zero, np.float64), wide.shape, axis, 0)
    return Operand((wide - less) * steps, name, None if name else np.square(steps) / 12)


def _qlinear_conv(call: OnnxCall, names: list[str], given: list[Value], y: np.ndarray, _: Any) -> QuantisedLayer:
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias = given[:9]
    left, right = _integers(x, x_scale, x_zero, 1, names[0]), _integers(w, w_scale, w_zero, 0)
    steps = (np.asarray(x_scale, np.float64) * np.asarray(w_scale, np.float64)).reshape(-1)
    added: Any = 0.0 if bias is None else (bias * steps).reshape(1, -1, *[1] * (x.ndim - 2))
    return QuantisedLayer(
        *("QOperator", left, right, lambda a, b: convolved(call, a, b), added, y.astype(np.float64)),
        (np.asarray(y_scale, np.float64), y_zero, y.dtype),
    )


def _qlinear_matmul(call: OnnxCall, names: list[str], given: list[Value], y: np.ndarray, _: Any) -> QuantisedLayer:
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = given[:8]
    left, right = _integers(a, a_scale, a_zero, -2, names[0]), _integers(b, b_scale, b_zero, -1, names[3])
    step = (np.asarray(y_scale, np.float64), y_zero, y.dtype)
    return QuantisedLayer("QOperator", left, right, np.matmul, 0.0, y.astype(np.float64), step)


def _qgemm(call: OnnxCall, names: list[str], given: list[Value], y: np.ndarray, _: Any) -> QuantisedLayer:
    a, a_scale, a_zero, b, b_scale, b_zero, bias, y_scale, y_zero = given[:9]
    left = _integers(a, a_scale, a_zero, 0, names[0])
    right = _integers(b, b_scale, b_zero, 0 if call.get("transB", 0) else 1)
    alpha = call.get("alpha", 1.0)

    def product(left: np.ndarray, right: np.ndarray) -> np.ndarray:
        turned = left.T if call.get("transA", 0) else left, right.T if call.get("transB", 0) else right
        return np.matmul(*turned) * alpha

    steps = np.asarray(a_scale, np.float64) * np.asarray(b_scale, np.float64)
    step = None if y_scale is None else (np.asarray(y_scale, np.float64), y_zero, y.dtype)
    return QuantisedLayer(
        *("QOperator", left, right, product, 0.0 if bias is None else bias * steps, y.astype(np.float64), step),
        gain=alpha,
    )


def _integer_product(
    call: OnnxCall, names: list[str], given: list[Value], y: np.ndarray, scales: tuple[Value, Value]
) -> QuantisedLayer:
    x, w, x_zero, w_zero = given[:4]
    conv = call.node.op_type == "ConvInteger"
    x_scale, w_scale = (np.asarray(1.0 if one is None else one, np.float64) for one in scales)
    steps = w_scale.reshape(-1) if w_scale.size > 1 else w_scale.reshape(())
    left = _integers(x, x_scale, x_zero, -2, names[0])
    right = _integers(w, steps, w_zero, 0 if conv else -1, names[1])
    unit = x_scale * (steps.reshape(1, -1, *[1] * (x.ndim - 2)) if conv and steps.ndim else steps)
    return QuantisedLayer(
        "dynamic", left, right, (lambda a, b: convolved(call, a, b)) if conv else np.matmul, 0.0, y * unit
    )


def _to_float(call: OnnxCall, names: list[str], given: list[Value], y: np.ndarray, _: Any) -> QuantisedLayer:
    a, b, a_scale, b_scale, a_zero, b_zero, bias = given[:7]
    left = _integers(a, a_scale, a_zero, -2, names[0])
    right = _integers(b, b_scale, b_zero, -1, names[1])
    return QuantisedLayer("dynamic", left, right, np.matmul, 0.0 if bias is None else bias, y.astype(np.float64))


def _dynamic(call: OnnxCall, names: list[str], given: list[Value], y: np.ndarray, _: Any) -> QuantisedLayer:
    a, b, b_scale, b_zero, bias = given[:5]
    wide = a.astype(np.float64)
    scale, before = dynamic_parameters(wide)
    zero = np.rint(before)
    held = (np.clip(np.rint(wide / scale) + zero, 0, 255) - zero) * scale
    left, right = Operand(held, error=held - wide), _integers(b, b_scale, b_zero, -1)
    return QuantisedLayer("dynamic", left, right, np.matmul, 0.0 if bias is None else bias, y.astype(np.float64))


def _few_bits(
    call: OnnxCall, names: list[str], given: list[Value], y: np.ndarray, _steps: Any
) -> QuantisedLayer | None:
    a, b, scales, _, order, bias = given[:6]
    if order is not None:
        return None
    columns, depth, block = call.get("N"), call.get("K"), call.get("block_size")
    integers = unpacked(b.reshape(columns, -(-depth // block), -1), call.get("bits", 4))[..., :block]
    each = scales.astype(np.float64).reshape(columns, -1, 1)
    held = computed(call, [np.eye(depth), *given[1:4]][: len(call.node.input)])[0]
    variance = np.broadcast_to(np.square(each) / 12, integers.shape).reshape(columns, -1)[:, :depth].T
    left, right = Operand(a.astype(np.float64)), Operand(held, variance=variance)
    return QuantisedLayer("weights only", left, right, np.matmul, 0.0 if bias is None else bias, y.astype(np.float64))


_MAKERS: dict[tuple[str, str], Callable[..., QuantisedLayer | None]] = {
    ("", "QLinearConv"): _qlinear_conv,
    ("", "QLinearMatMul"): _qlinear_matmul,
    ("", "ConvInteger"): _integer_product,
    ("", "MatMulInteger"): _integer_product,
    (MICROSOFT, "QGemm"): _qgemm,
    (MICROSOFT, "MatMulIntegerToFloat"): _to_float,
    (MICROSOFT, "DynamicQuantizeMatMul"): _dynamic,
    (MICROSOFT, "MatMulNBits"): _few_bits,
}


@dataclass(frozen=True)
class IntegerProduct:
    """Where a product of integers becomes a float.

    Attributes
    ----------
    result : str
        The float value: the product cast to float, times the scale of the input, times that of the weights.
    scale : str
        The constant that is the scale of the weights.
    """

    result: str
    scale: str


def integer_products(nodes: tuple[OnnxNode, ...]) -> dict[int, IntegerProduct]:
    """Return for each ConvInteger and MatMulInteger, by its index, where its result becomes a float, if that is found.

    The result is cast to float, and multiplied by the scale of the input times that of the weights.
    """
    makers = {name: node for node in nodes for name in node.outputs}
    readers: dict[str, list[OnnxNode]] = {}
    for node in nodes:
        for name in node.reads:
            readers.setdefault(name, []).append(node)
    found: dict[int, IntegerProduct] = {}
    for node in nodes:
        if node.proto.op_type not in ("ConvInteger", "MatMulInteger"):
            continue
        for cast in readers.get(node.outputs[0], []):
            for product in readers.get(cast.outputs[0], []) if cast.proto.op_type == "Cast" else ():
                others = [name for name in product.reads if name != cast.outputs[0]]
                maker = makers.get(others[0]) if len(others) == 1 and product.proto.op_type == "Mul" else None
                if maker is not None and maker.proto.op_type == "Mul":
                    constant = [name for name in maker.reads if name not in makers]
                    if len(constant) == 1:
                        found[node.index] = IntegerProduct(product.outputs[0], constant[0])
    return found
