"""Layers with integer weights, recognised by what their operators are, whichever tool wrote them, never by their names.

Four forms: float operators between DequantizeLinear and QuantizeLinear (QDQ), operators on integers with their scales
(QOperator), operators on integers whose scales are found while running (dynamic), and integer weights alone.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kokoro_nb.inspection.onnx_nodes import OnnxNode
from kokoro_nb.inspection.semantics.contributed import unpacked
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


@dataclass(frozen=True)
class IntegerOperator:
    """Where an operator on integers reads its factors, and the float operator that it stands for.

    Attributes
    ----------
    kind : str
        The float operator, which has the same attributes.
    left, right : tuple of int
        Places among its inputs of a factor, of its scale and of its zero point; -1 of what it does not read.
    bias : int
        Place of what is added: an integer in the unit of both scales, or, after a MatMul, a float.
    result : tuple of int
        Places of the scale and of the zero point of the integers that it gives.
    """

    kind: str
    left: tuple[int, int, int]
    right: tuple[int, int, int]
    bias: int = -1
    result: tuple[int, int] = (-1, -1)

    @property
    def static(self) -> bool:
        """Whether the scales of what it reads and gives are constants."""
        return self.result[0] >= 0

    def axis(self, attributes: Mapping[str, Any]) -> int:
        """Return the axis of the right factor along which its scales lie."""
        return {"Conv": 0, "MatMul": -1, "Gemm": 0 if attributes.get("transB", 0) else 1}[self.kind]


ON_INTEGERS = {
    ("", "QLinearConv"): IntegerOperator("Conv", (0, 1, 2), (3, 4, 5), 8, (6, 7)),
    ("", "QLinearMatMul"): IntegerOperator("MatMul", (0, 1, 2), (3, 4, 5), -1, (6, 7)),
    ("", "ConvInteger"): IntegerOperator("Conv", (0, -1, 2), (1, -1, 3)),
    ("", "MatMulInteger"): IntegerOperator("MatMul", (0, -1, 2), (1, -1, 3)),
    (MICROSOFT, "QGemm"): IntegerOperator("Gemm", (0, 1, 2), (3, 4, 5), 6, (7, 8)),
    (MICROSOFT, "MatMulIntegerToFloat"): IntegerOperator("MatMul", (0, 2, 4), (1, 3, 5), 6),
    (MICROSOFT, "DynamicQuantizeMatMul"): IntegerOperator("MatMul", (0, -1, -1), (1, 2, 3), 4),
}
LONGEST = 9  # inputs of one of them


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
    kind, names = call.node.op_type, [*call.node.input]
    padded, y = [*inputs, *[None] * LONGEST], np.asarray(widened(given))
    if (call.domain, kind) == (MICROSOFT, "MatMulNBits"):
        return _few_bits(call, padded, y)
    operator = ON_INTEGERS.get((call.domain, kind))
    if operator is not None:
        return _of_integers(call, operator, padded, y, {*rounded}, steps)
    if call.domain or kind not in PRODUCTS or not any(name in weights or name in rounded for name in names[:2]):
        return None
    left, right = (
        Operand(np.asarray(widened(value)), name if name in rounded else "", weights.get(name))
        for name, value in zip(names[:2], inputs[:2], strict=True)
    )
    return QuantisedLayer("QDQ", left, right, *_float(call, kind, left, right, padded[2]), y, gain=_gain(call))


def _float(
    call: OnnxCall, kind: str, left: Operand, right: Operand, added: Value
) -> tuple[Callable[[np.ndarray, np.ndarray], np.ndarray], Any]:
    """Return the product of a float operator of this kind, with the attributes of the node, and the bias alone."""
    from onnx import helper

    def product(*values: Any) -> np.ndarray:
        node = helper.make_node(kind, [*"abc"[: len(values)]], ["y"], **call.attributes)
        return np.asarray(computed(OnnxCall(node, call.opsets), values)[0])

    if added is None or kind == "MatMul":
        return product, 0.0 if added is None else added
    return product, product(np.zeros(left.values.shape), right.values, added)


def _gain(call: OnnxCall) -> float:
    return float(call.get("alpha", 1.0))


def _integers(values: np.ndarray, scale: Any, zero: Value, axis: int, name: str = "") -> Operand:
    """Return integers with a scale, per tensor or along an axis; those without a name are weights."""
    wide = values.astype(np.float64)
    steps = np.broadcast_to(scales_spread(np.asarray(scale, np.float64), wide.shape, axis, 0), wide.shape)
    less = 0 if zero is None else scales_spread(np.asarray(zero, np.float64), wide.shape, axis, 0)
    return Operand((wide - less) * steps, name, None if name else np.square(steps) / 12)


def _of_integers(
    call: OnnxCall,
    operator: IntegerOperator,
    inputs: list[Value],
    y: np.ndarray,
    rounded: set[str],
    steps: tuple[Value, Value],
) -> QuantisedLayer:
    names = [*call.node.input]
    (a, a_scale, a_zero), (b, b_scale, b_zero) = ([inputs[k] for k in each] for each in (operator.left, operator.right))
    form, unit = "QOperator" if operator.static else "dynamic", np.asarray(1.0)
    if a.dtype.kind == "f":  # it makes integers of it itself
        wide = a.astype(np.float64)
        a_scale, before = dynamic_parameters(wide)
        zero = np.rint(before)
        held = (np.clip(np.rint(wide / a_scale) + zero, 0, 255) - zero) * a_scale
        left = Operand(held, error=held - wide)
    else:
        a_scale, own = (steps[0], steps[1]) if operator.right[1] < 0 else (a_scale, b_scale)
        a_scale, b_scale = (np.asarray(1.0 if one is None else one, np.float64) for one in (a_scale, own))
        left = _integers(a, a_scale, a_zero, 0 if operator.kind == "Gemm" else -2, names[operator.left[0]])
    spread = b_scale.reshape(-1) if np.size(b_scale) > 1 else np.reshape(b_scale, ())
    name = names[operator.right[0]]
    right = _integers(b, spread, b_zero, operator.axis(call.attributes), name if name in rounded else "")
    scales = np.asarray(a_scale, np.float64) * np.asarray(spread, np.float64)
    bias, (y_scale, y_zero) = inputs[operator.bias], (inputs[k] for k in operator.result)
    if bias is not None and operator.kind != "MatMul":
        bias = bias * scales.reshape(-1)
    if operator.right[1] < 0:  # it gives the integers that it adds up
        unit = scales.reshape(1, -1, *[1] * (a.ndim - 2)) if operator.kind == "Conv" and scales.ndim else scales
    step = None if y_scale is None else (np.asarray(y_scale, np.float64), y_zero, y.dtype)
    product = _float(call, operator.kind, left, right, bias)
    return QuantisedLayer(form, left, right, *product, y * unit, step, _gain(call))


def _few_bits(call: OnnxCall, given: list[Value], y: np.ndarray) -> QuantisedLayer | None:
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
