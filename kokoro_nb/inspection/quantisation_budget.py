"""Where the noise of a quantised file comes from, layer by layer, without the float model that it was made from.

What an activation loses in becoming an integer is seen on the runtime: the value before, and the integer after.
What weights lost is not in the file; their rounding spreads evenly over one step, so that its variance is a twelfth of
the square of the step, and what that makes of the output follows from the values that they are multiplied with.
"""

import contextlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kokoro_nb.inspection.onnx_file import OnnxFile
from kokoro_nb.inspection.onnx_nodes import OnnxNode, last_readers
from kokoro_nb.inspection.quantised_layers import Operand, QuantisedLayer, integer_products, layer_of
from kokoro_nb.inspection.semantics.onnx_call import MICROSOFT, NotDefined, OnnxCall, computed, dtypes_of, widened
from kokoro_nb.inspection.semantics.quantised import BEFORE_ROUNDING, RANGES, scales_spread
from kokoro_nb.inspection.value_types import Value, Values
from kokoro_nb.markup import number

MOVERS = ("Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Identity")
_STEP_PLACES = {
    **{(MICROSOFT, f"QLinear{kind}"): 3 for kind in ("Sigmoid", "LeakyRelu", "GlobalAveragePool")},
    **{(MICROSOFT, f"QLinear{kind}"): 6 for kind in ("Add", "Mul")},
}
"""Where operators on integers that are no products read the scale of their result."""
PARTS = ("weights", "rounding", "clipping", "requantisation", "kernel")


@dataclass(frozen=True)
class QuantisedValue:
    """One activation that becomes integers.

    Attributes
    ----------
    key : str
        Id of the node that makes integers of it.
    name : str
        The value before.
    dtype : str
        The type of the integers.
    level : float or None
        Level of the value over what it loses, in dB; infinite if nothing, None of silence.
    clipped : float
        Share of its elements beyond the range of the integers, from 0 to 1.
    after : str
        Id of the layer whose result it is; empty where it comes from elsewhere.
    """

    key: str
    name: str
    dtype: str
    level: float | None
    clipped: float
    after: str = ""


@dataclass(frozen=True)
class LayerBudget:
    """The noise of one layer, each part as a power (mean square) of its output.

    Attributes
    ----------
    index : int
        Its place in the order of execution.
    key, operator : str
        Its id in Model Explorer and its operator.
    form : str
        ``QDQ``, ``QOperator``, ``dynamic`` or ``weights only``.
    signal : float
        Power of what it gives without any of this noise, but for its weights.
    weights : float
        What the rounding of its weights makes, as expected of their steps.
    rounding, clipping : float
        What the rounding of its input makes, and the cutting of values beyond the range. Of an input that is the result
        of another layer this is counted there, as requantisation.
    requantisation : float
        What its result loses in becoming an integer, cutting included.
    kernel : float
        By what the runtime differs from the definition, on the same integers.
    measured : float
        Of all but the weights together, as measured.
    """

    index: int
    key: str
    operator: str
    form: str
    signal: float
    weights: float
    rounding: float
    clipping: float
    requantisation: float
    kernel: float
    measured: float

    @property
    def total(self) -> float:
        """The sum of the parts."""
        return float(np.sum([getattr(self, part) for part in PARTS]))

    @property
    def level(self) -> float | None:
        """Level of its result over all of its noise, in dB."""
        return decibels(self.signal, self.total)

    @property
    def apart(self) -> float:
        """By how many dB the sum of the parts differs from what was measured, weights left out of both."""
        parts = self.total - self.weights
        return 0.0 if parts == self.measured else abs(decibels(parts, self.measured) or float("inf"))

    def row(self) -> dict[str, Any]:
        """Return it as a row of a table: signal over each part, in dB."""
        about = {"node": self.key, "operator": self.operator, "form": self.form}
        levels = {part: decibels(self.signal, getattr(self, part)) for part in (*PARTS, "total")}
        return about | {
            f"signal over {part} (dB)": "none" if level is not None and np.isposinf(level) else level
            for part, level in levels.items()
        }


def decibels(signal: float, noise: float) -> float | None:
    """Return a power over another in dB; infinite of no noise, None of no signal.

    >>> decibels(100.0, 1.0), decibels(1.0, 0.0), decibels(0.0, 1.0)
    (20.0, inf, None)
    """
    if noise == 0:
        return float("inf")
    return 10 * float(np.log10(signal / noise)) if signal else None


@dataclass(frozen=True)
class QuantisationBudget:
    """The layers of a file with integer weights or activations, and the activations that become integers."""

    layers: tuple[LayerBudget, ...] = ()
    values: tuple[QuantisedValue, ...] = ()

    @property
    def noisiest(self) -> tuple[LayerBudget, ...]:
        """The layers, the lowest level first."""

        def level(one: LayerBudget) -> float:
            found = float("inf") if one.level is None else one.level
            return float("-inf") if np.isnan(found) else found

        return tuple(sorted(self.layers, key=level))

    def stated(self) -> tuple[str, ...]:
        """Return in sentences where most noise enters."""
        if not self.layers:
            return ()
        worst = self.noisiest[0]
        part = PARTS[int(np.argmax([getattr(worst, part) for part in PARTS]))]
        share = getattr(worst, part) / worst.total if worst.total else 0.0
        level = "silent" if worst.level is None else f"{number(worst.level)} dB above its own quantisation noise"
        cut = [one for one in self.values if one.clipped > 0.001]
        found = [
            f"{len(self.layers)} layers are quantised ({', '.join(sorted({one.form for one in self.layers}))}); the "
            f"noisiest is {worst.key} ({worst.operator}), {level}, of which {share:.0%} is {part}."
        ]
        if cut:
            most = cut[int(np.argmax([one.clipped for one in cut]))]
            found.append(
                f"{len(cut)} activations are cut by the range of their integers, most '{most.name}': "
                f"{most.clipped:.2%} of its values."
            )
        return tuple(found)


class BudgetWatch:
    """Gathers the budget while nodes pass one after the other, and keeps no more than what later nodes read.

    Parameters
    ----------
    file : OnnxFile
        The file.
    nodes : tuple of OnnxNode
        Its nodes in order.
    """

    def __init__(self, file: OnnxFile, nodes: tuple[OnnxNode, ...]) -> None:
        self.file = file
        self.freed = last_readers(nodes, set())
        self.layers: list[LayerBudget] = []
        self.values: list[QuantisedValue] = []
        self.weights: dict[str, np.ndarray] = {}
        self.rounded: dict[str, tuple[np.ndarray, np.ndarray] | None] = {}
        self.results: dict[str, tuple[int, np.ndarray]] = {}  # of layers, on their way to becoming integers
        self.steps: dict[str, Value] = {}
        self.products = integer_products(nodes)

    @property
    def budget(self) -> QuantisationBudget:
        """What was found so far."""
        return QuantisationBudget(tuple(self.layers), tuple(self.values))

    def see(self, node: OnnxNode, values: Values) -> None:
        """Take in one node with what it reads and gives on the runtime."""
        inputs = [values[name] if name else None for name in node.proto.input]
        call = OnnxCall(node.proto, self.file.opsets, dtypes_of(inputs), values)
        with contextlib.suppress(NotDefined, ValueError, TypeError, RuntimeError, IndexError):
            self._see(call, node, inputs, values)  # a node that cannot be computed is named by its judgement
        for name in self.freed.get(node.index, ()):
            for known in (self.weights, self.rounded, self.results):
                known.pop(name, None)

    def _see(self, call: OnnxCall, node: OnnxNode, inputs: list[Value], values: Values) -> None:
        kind, names = node.proto.op_type, list(node.proto.input)
        if kind == "DequantizeLinear":
            self._dequantised(call, names, inputs, node.proto.output[0])
        elif kind == "QuantizeLinear":
            axis, block = call.get("axis", 1), call.get("block_size", 0)
            x, scale, zero = [*inputs, None][:3]
            self._quantised(node, x, scale, zero, values[node.proto.output[0]], axis, block)
        elif kind == "DynamicQuantizeLinear":
            y, scale, zero = (values[name] for name in node.proto.output)
            self.steps[node.proto.output[0]] = scale
            self._quantised(node, inputs[0], scale, zero, y, 1, 0)
        elif kind in MOVERS and names[0] in self.rounded:
            errors = self.rounded[names[0]]
            moved = errors and tuple(np.asarray(computed(call, [one, *inputs[1:]])[0]) for one in errors)
            self.rounded[node.proto.output[0]] = moved  # type: ignore[assignment]
        elif (call.domain, kind) in _STEP_PLACES:
            given = values[node.proto.output[0]]
            before = BEFORE_ROUNDING[call.domain, kind](call, *map(widened, inputs))
            error = (given - before) * float(np.asarray(inputs[_STEP_PLACES[call.domain, kind]]).reshape(()))
            self.rounded[node.proto.output[0]] = (error, np.zeros(error.shape))
        elif kind == "Add" and self._shifted(call, names, inputs, node.proto.output[0]):
            pass
        else:
            given = values[node.proto.output[0]] if node.proto.output[0] else None
            product = self.products.get(node.index)
            constant = self.file.constants.get(product.scale) if product else None
            left, right = ([*(self.steps.get(name) for name in names[:2]), None, None])[:2]
            steps = left, right if constant is None else constant
            layer = layer_of(call, inputs, given, self.weights, self.rounded, steps)
            if layer is not None:
                self._layer(layer, node)

    def _dequantised(self, call: OnnxCall, names: list[str], inputs: list[Value], given: str) -> None:
        if names[0] in self.file.constants:
            shape = np.shape(inputs[0])
            steps = scales_spread(
                np.asarray(inputs[1], np.float64), shape, call.get("axis", 1), call.get("block_size", 0)
            )
            self.weights[given] = np.broadcast_to(np.square(steps) / 12, shape)
        elif names[0] in self.weights:
            self.weights[given] = self.weights[names[0]]
        elif names[0] in self.rounded:
            self.rounded[given] = self.rounded[names[0]]

    def _quantised(self, node: OnnxNode, x: Value, scale: Value, zero: Value, y: Value, axis: int, block: int) -> None:
        """Take in an activation that becomes integers."""
        name = y.dtype.name
        if name not in RANGES:
            return
        low, high = RANGES[name]
        wide, held = np.asarray(x).astype(np.float64), np.asarray(widened(y)).astype(np.float64)
        steps = scales_spread(np.asarray(scale, np.float64), wide.shape, axis, block)
        less = 0.0 if zero is None else scales_spread(np.asarray(widened(zero), np.float64), wide.shape, axis, block)
        error = (held - less) * steps - wide
        if node.proto.input[0] in self.file.constants:
            self.weights[node.proto.output[0]] = np.square(error)
            return
        before = wide / steps + less
        beyond = (before < low - 0.5) | (before > high + 0.5)
        result = self.results.get(node.proto.input[0])
        level = decibels(float(np.square(wide).sum()), float(np.square(error).sum()))
        share = float(beyond.mean()) if beyond.size else 0.0
        after = "" if result is None else self.layers[result[0]].key
        self.values.append(QuantisedValue(node.key, node.proto.input[0], name, level, share, after))
        if result is None:
            self.rounded[node.proto.output[0]] = (np.where(beyond, 0.0, error), np.where(beyond, error, 0.0))
            return
        self.rounded[node.proto.output[0]] = None
        at, exact = result
        self.layers[at] = replace(self.layers[at], requantisation=_power(error), measured=_power(wide + error - exact))

    def _shifted(self, call: OnnxCall, names: list[str], inputs: list[Value], given: str) -> bool:
        """Add a constant to a layer's result: it is still that layer's."""
        for name, other in (names, names[::-1]):
            if name in self.results and (other in self.file.constants or other in self.weights):
                pairs = zip(names, inputs, strict=True)
                layer, result = self.results[name]
                exact = [result if one == name else value for one, value in pairs]
                self.results[given] = layer, np.asarray(computed(call, exact)[0])
                return True
        return False

    def _layer(self, layer: QuantisedLayer, node: OnnxNode) -> None:
        """Compute the parts of one layer."""
        left, right, product = layer.left, layer.right, layer.product
        rounding, clipping = self._errors(left)
        other_rounding, other_clipping = self._errors(right)
        plain = product(left.values - rounding - clipping, right.values - other_rounding - other_clipping)
        exact = plain + layer.bias  # with weights as they are, and nothing rounded
        held = product(left.values, right.values) + layer.bias
        parts = {
            "rounding": product(rounding, right.values) + product(left.values, other_rounding),
            "clipping": product(clipping, right.values) + product(left.values, other_clipping),
        }
        powers = {name: _power(one) if np.any(one) else 0.0 for name, one in parts.items()}
        weights = 0.0
        for one, other in ((left, right), (right, left)):
            if one.variance is not None:
                pair = (one.variance, np.square(other.values))
                weights += float(product(*(pair if one is left else pair[::-1])).mean()) * layer.gain
        given, requantised = layer.given, 0.0
        if layer.step is not None:
            scale, zero, dtype = layer.step
            low, high = RANGES[dtype.name]
            integers = np.clip(np.rint(held / scale + float(np.asarray(zero))), low, high)
            right_result, given = ((one - float(np.asarray(zero))) * scale for one in (integers, layer.given))
            requantised, kernel = _power(right_result - held), _power(given - right_result)
        else:
            kernel = _power(given - held)
        budget = LayerBudget(
            *(node.index, node.key, node.operator, layer.form, _power(exact), weights),
            *(powers["rounding"], powers["clipping"], requantised, kernel, _power(given - exact)),
        )
        if layer.step is not None:
            self.rounded[node.proto.output[0]] = None
        else:
            self.results[node.proto.output[0]] = (len(self.layers), exact)
        self.layers.append(budget)

    def _errors(self, operand: Operand) -> tuple[np.ndarray, np.ndarray]:
        nothing = np.zeros(operand.values.shape)
        if operand.error is not None:
            return operand.error, nothing
        return self.rounded.get(operand.name) or (nothing, nothing)


def _power(values: np.ndarray) -> float:
    return float(np.square(values).mean()) if values.size else float("nan")
