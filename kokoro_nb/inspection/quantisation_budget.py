"""Where the noise of a quantised file comes from, layer by layer, without the float model that it was made from.

What an activation loses in becoming an integer is seen on the runtime: the value before, and the integer after.
What weights lost is not in the file; their rounding spreads evenly over one step, so that its variance is a twelfth of
the square of the step, and what that makes of the output follows from the values that they are multiplied with.
"""

import contextlib
from collections import ChainMap
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kokoro_nb.inspection.onnx_file import OnnxFile
from kokoro_nb.inspection.onnx_nodes import OnnxNode, last_readers
from kokoro_nb.inspection.quantised_layers import IntegerLayers, WrittenOut
from kokoro_nb.inspection.semantics.onnx_call import MICROSOFT, NotDefined, OnnxCall, computed, widened
from kokoro_nb.inspection.semantics.quantised import BEFORE_ROUNDING, RANGES, scales_spread
from kokoro_nb.inspection.value_types import Value, Values
from kokoro_nb.markup import number

PRODUCTS = ("Conv", "ConvTranspose", "MatMul", "Gemm")
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
        The value before; of a layer on integers, which gives it no name, the integers.
    level : float or None
        Level of the value over what it loses, in dB; infinite if nothing, None of silence.
    clipped : float
        Share of its elements beyond the range of the integers, from 0 to 1.
    after : str
        Id of the layer whose result it is; empty where it comes from elsewhere.
    """

    key: str
    name: str
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
        levels = [np.inf if one.level is None else one.level for one in self.layers]
        return tuple(self.layers[k] for k in np.argsort(np.nan_to_num(levels, nan=-np.inf), kind="stable"))

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
        self.weights: dict[str, np.ndarray] = {}  # variance of the rounding that made integers of them
        self.rounded: dict[str, tuple[np.ndarray, ...]] = {}  # rounding and clipping; empty where a layer has them
        self.results: dict[str, tuple[int, np.ndarray]] = {}  # of layers, on their way to becoming integers
        self.scales: dict[str, Value] = {}  # that are found while running
        self.integers = IntegerLayers(file, nodes)

    @property
    def budget(self) -> QuantisationBudget:
        """What was found so far."""
        return QuantisationBudget(tuple(self.layers), tuple(self.values))

    def see(self, node: OnnxNode, values: Values) -> None:
        """Take in one node with what it reads and gives on the runtime."""
        own: dict[str, Value] = {}
        with contextlib.suppress(NotDefined, ValueError, TypeError, RuntimeError, LookupError):
            written = self.integers.written_out(node)  # a node that cannot be computed is named by its judgement
            if written is None:
                self._see(OnnxCall(node.proto, self.file.opsets), node, values)
            else:
                own.update(written.constants)
                self._see_written_out(written, node, ChainMap(own, self.scales, dict(values)))
        for name in (*self.freed.get(node.index, ()), *own):
            for known in (self.weights, self.rounded, self.results):
                known.pop(name, None)

    def _see_written_out(self, written: WrittenOut, node: OnnxNode, values: ChainMap[str, Value]) -> None:
        """Take in a layer on integers, or on weights of few bits, as the nodes that it stands for."""
        y = np.asarray(widened(values[node.outputs[0]]))
        if written.form == "weights only":
            call, name = OnnxCall(node.proto, self.file.opsets), written.nodes[0].input[1]
            columns, depth = call.get("N"), call.get("K")
            inputs = [values[one] if one else None for one in node.proto.input[1:4]]
            values[name] = computed(call, [np.eye(depth), *inputs])[0]
            steps = np.repeat(widened(inputs[1]).reshape(columns, -1), call.get("block_size"), axis=1)
            self.weights[name] = np.square(steps[:, :depth].T) / 12
        if written.scales:
            step, other = (np.ravel(widened(values[one])) for one in written.scales)
            axis = 1 if node.proto.op_type == "ConvInteger" else -1
            values[written.product] = y * scales_spread(step * other, y.shape, axis, 0)
        elif written.added:
            values[written.product] = y - values[written.added]
        for proto in written.nodes:
            call = OnnxCall(proto, self.file.opsets)
            if any(name not in values for name in proto.output):
                results = computed(call, [values[name] for name in proto.input])
                values.update(zip(proto.output, results, strict=True))
            self._see(call, node, values, written.form)

    def _see(self, call: OnnxCall, node: OnnxNode, values: Values, form: str = "QDQ") -> None:
        """Take in an operator of a node, on floats or between floats and integers."""
        kind, names, given = call.node.op_type, list(call.node.input), call.node.output[0]
        inputs = [values[name] if name else None for name in names]
        first = names[0] if names else ""
        if kind == "DequantizeLinear":
            if first in self.file.constants:
                shape, axis, block = np.asarray(inputs[0]).shape, call.get("axis", 1), call.get("block_size", 0)
                steps = scales_spread(widened(inputs[1]), shape, axis, block)
                self.weights[given] = np.broadcast_to(np.square(steps) / 12, shape)
            for held in (self.weights, self.rounded):
                held.update({given: held[first]} if first in held else {})
        elif kind == "QuantizeLinear":
            self._quantised(call, node, [*inputs, None][:3], values[given])
        elif kind == "DynamicQuantizeLinear":
            self.scales[call.node.output[1]] = values[call.node.output[1]]
            self._quantised(call, node, [inputs[0], *(values[name] for name in call.node.output[1:])], values[given])
        elif kind in MOVERS and first in self.rounded:
            self.rounded[given] = tuple(computed(call, [one, *inputs[1:]])[0] for one in self.rounded[first])
        elif (call.domain, kind) in _STEP_PLACES:
            before = BEFORE_ROUNDING[call.domain, kind](call, *map(widened, inputs))
            error = (values[given] - before) * float(np.asarray(inputs[_STEP_PLACES[call.domain, kind]]).reshape(()))
            self.rounded[given] = (error, np.zeros(error.shape))
        elif kind == "Add" and (result := next((name for name in names if name in self.results), "")):
            other = names[1 - names.index(result)]
            if other in self.file.constants or other in self.weights:  # it is still the result of that layer
                at, exact = self.results[result]
                shifted = [exact if name == result else value for name, value in zip(names, inputs, strict=True)]
                self.results[given] = at, computed(call, shifted)[0]
        elif not call.domain and kind in PRODUCTS and {*names[:2]} & (self.weights.keys() | self.rounded.keys()):
            self._layer(call, node, inputs, np.asarray(widened(values[given])), form)

    def _quantised(self, call: OnnxCall, node: OnnxNode, inputs: list[Value], y: Value) -> None:
        """Take in an activation that becomes integers."""
        source, given = call.node.input[0], call.node.output[0]
        if y.dtype.name not in RANGES:
            return
        low, high = RANGES[y.dtype.name]
        axis, block = call.get("axis", 1), call.get("block_size", 0)
        wide = np.asarray(inputs[0]).astype(np.float64)
        steps, less = (
            scales_spread(0.0 if one is None else np.asarray(widened(one), np.float64), wide.shape, axis, block)
            for one in inputs[1:]
        )
        error = (np.asarray(widened(y), np.float64) - less) * steps - wide
        if source in self.file.constants:
            self.weights[given] = np.square(error)
            return
        before = wide / steps + less
        beyond = (before < low - 0.5) | (before > high + 0.5)
        at, exact = self.results.get(source, (-1, wide))
        level = decibels(float(np.square(wide).sum()), float(np.square(error).sum()))
        share = float(beyond.mean()) if beyond.size else 0.0
        name = source if source in node.reads else given
        self.values.append(QuantisedValue(node.key, name, level, share, "" if at < 0 else self.layers[at].key))
        self.rounded[given] = (np.where(beyond, 0.0, error), np.where(beyond, error, 0.0)) if at < 0 else ()
        if at >= 0:
            right = (np.clip(np.rint(before), low, high) - less) * steps - wide
            kernel, measured = self.layers[at].kernel + _power(error - right), _power(wide + error - exact)
            self.layers[at] = replace(self.layers[at], requantisation=_power(right), kernel=kernel, measured=measured)

    def _layer(self, call: OnnxCall, node: OnnxNode, inputs: list[Value], given: np.ndarray, form: str) -> None:
        """Compute the parts of one layer."""

        def product(left: Value, right: Value, times: float = 0.0) -> np.ndarray:
            added = (None if one is None else widened(one) * times for one in inputs[2:])
            return np.asarray(computed(call, [left, right, *added])[0])

        def noise(of_left: np.ndarray, of_right: np.ndarray) -> float:
            pairs = ((of_left, right), (left, of_right))
            return _power(np.sum([product(*pair) for pair in pairs if all(map(np.any, pair))], axis=0))

        names = call.node.input
        left, right = (np.asarray(widened(one)) for one in inputs[:2])
        zeros = [(np.zeros(one.shape),) * 2 for one in (left, right)]
        (a, a_cut), (b, b_cut) = (self.rounded.get(name) or zero for name, zero in zip(names, zeros, strict=False))
        held, exact = product(left, right, 1.0), product(left - a - a_cut, right - b - b_cut, 1.0)
        pairs = ((self.weights.get(names[0]), np.square(right)), (np.square(left), self.weights.get(names[1])))
        weights = [product(*pair).mean() for pair in pairs if pair[0] is not None and pair[1] is not None]
        self.results[call.node.output[0]] = (len(self.layers), exact)
        self.layers.append(
            LayerBudget(
                *(node.index, node.key, node.operator, form, _power(exact)),
                *(float(np.sum(weights)) * call.get("alpha", 1.0), noise(a, b), noise(a_cut, b_cut)),
                *(0.0, _power(given - held), _power(given - exact)),
            )
        )


def _power(values: np.ndarray) -> float:
    return float(np.square(values).mean()) if values.size else float("nan")
