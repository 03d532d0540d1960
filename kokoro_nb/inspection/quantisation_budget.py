"""Where the noise of a quantised file comes from, layer by layer, without the float model that it was made from.

What an activation loses in becoming an integer is seen on the runtime: the value before, and the integer after.
What weights lost is not in the file; their rounding spreads evenly over one step, so that its variance is a twelfth of
the square of the step, and what that makes of the output follows from the values that they are multiplied with.
"""

import contextlib
from collections import ChainMap, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kokoro_nb.inspection.onnx_file import OnnxFile
from kokoro_nb.inspection.onnx_model import OnnxNode, last_readers
from kokoro_nb.inspection.semantics import quantised
from kokoro_nb.inspection.semantics.onnx_call import NotDefined, OnnxCall, computed, widened
from kokoro_nb.inspection.value_types import NodeIdentity, Value, Values
from kokoro_nb.markup import number

PRODUCTS = ("Conv", "ConvTranspose", "MatMul", "Gemm")
ROUNDERS = ("QuantizeLinear", "DynamicQuantizeLinear")
MOVERS = ("Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Identity")


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
        Id of the layer that gives it; empty where it comes from elsewhere.
    """

    key: str
    name: str
    level: float | None
    clipped: float
    after: str = ""


@dataclass(frozen=True)
class LayerBudget(NodeIdentity):
    """The noise of one layer, as powers (mean squares) of its output.

    Attributes
    ----------
    form : str
        ``QDQ``, ``QOperator``, ``dynamic`` or ``weights only``.
    signal : float
        Power of what it gives without any of this noise, but for its weights.
    weights : float
        What the rounding of its weights makes, as expected of their steps.
    activations : float
        By what its result, as an integer where it becomes one, differs from the layer on unrounded activations. Of an
        input that is the result of another layer the rounding is counted there.
    """

    form: str
    signal: float
    weights: float
    activations: float

    @property
    def total(self) -> float:
        """The sum of both."""
        return self.weights + self.activations

    @property
    def level(self) -> float | None:
        """Level of its result over all of its noise, in dB."""
        return decibels(self.signal, self.total)

    def row(self) -> dict[str, Any]:
        """Return it as a row of a table: signal over noise, in dB."""
        levels = {name: decibels(self.signal, getattr(self, name)) for name in ("weights", "activations", "total")}
        shown = {f"signal over {name} (dB)": "none" if one == np.inf else one for name, one in levels.items()}
        return {"node": self.key, "operator": self.operator, "form": self.form, **shown}


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
        return tuple(self.layers[k] for k in np.argsort(np.where(np.isnan(levels), -np.inf, levels), kind="stable"))

    def stated(self) -> tuple[str, ...]:
        """Return in sentences where most noise enters."""
        if not self.layers:
            return ()
        worst = self.noisiest[0]
        share = worst.weights / worst.total if worst.total else 0.0
        level = "silent" if worst.level is None else f"{number(worst.level)} dB above its own quantisation noise"
        cut = [one for one in self.values if one.clipped > 0.001]
        words = f"{len(self.layers)} layers are quantised ({', '.join(sorted({one.form for one in self.layers}))})"
        found = [f"{words}; the noisiest is {worst}, {level}, of which {share:.0%} is of its weights."]
        if cut:
            most = cut[int(np.argmax([one.clipped for one in cut]))]
            words = f"{len(cut)} activations are cut by the range of their integers, most '{most.name}'"
            found.append(f"{words}: {most.clipped:.2%} of its values.")
        return tuple(found)


class IntegerLayers:
    """The layers of a file that are operators on integers, recognised by their operators, never by their names.

    Parameters
    ----------
    file : OnnxFile
        The file.
    nodes : tuple of OnnxNode
        Its nodes.
    """

    def __init__(self, file: OnnxFile, nodes: tuple[OnnxNode, ...]) -> None:
        self.constants, self.opsets = file.constants, file.opsets
        self.makers = {name: node for node in nodes for name in node.outputs}
        self.readers: dict[str, list[OnnxNode]] = defaultdict(list)
        for node in nodes:
            for name in node.reads:
                self.readers[name].append(node)

    def written_out(self, node: OnnxNode) -> quantised.WrittenOut | None:
        """Return a node as the float operator that it stands for; None if it is no layer on integers."""
        call = OnnxCall(node.proto, self.opsets)
        if quantised.ON_INTEGERS.get(call.operator, "-")[0] not in PRODUCTS:
            return None
        return quantised.written_out(call, self.constants, node.proto.name, self._scaled(node))

    def _scaled(self, node: OnnxNode) -> tuple[str, str, str]:
        """Return the float that a sum of integers becomes, and the scales of its operands; empty where not found.

        The sum is cast to float, and multiplied by the scale of the input, found while running, times that of the
        weights, a constant.
        """
        maker = self.makers.get(node.reads[0])
        places = {} if maker is None else {"DynamicQuantizeLinear": maker.outputs, "QuantizeLinear": maker.reads}
        scale = "" if maker is None else places.get(maker.proto.op_type, ("", ""))[1]
        casts = _of_kind("Cast", self.readers[node.outputs[0]])
        products = _of_kind("Mul", (one for cast in casts for one in self.readers[cast.outputs[0]]))
        pairs = ((one, other) for one in products for other in _of_kind("Mul", map(self.makers.get, one.reads)))
        factors = ((one.outputs[0], scale, name) for one, other in pairs for name in other.reads)
        return next((each for each in factors if each[2] in self.constants), ("", scale, ""))


def _of_kind(kind: str, nodes: Iterable[OnnxNode | None]) -> list[OnnxNode]:
    return [node for node in nodes if node is not None and node.proto.op_type == kind]


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
        self.rounded: dict[str, Value] = {}  # what activations lost; nought where that is counted at a layer
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
                self._see(OnnxCall(node.proto, self.file.opsets), node, values, "QDQ", {})
            else:
                own.update(written.constants)
                self._see_written_out(written, node, ChainMap(own, self.scales, dict(values)))
        for name in (*self.freed.get(node.index, ()), *own):
            for known in (self.weights, self.rounded, self.results):
                known.pop(name, None)

    def _see_written_out(self, written: quantised.WrittenOut, node: OnnxNode, values: ChainMap[str, Value]) -> None:
        """Take in a layer on integers, or on weights of few bits, as the nodes that it stands for."""
        for proto in written.nodes:
            call = OnnxCall(proto, self.file.opsets)
            summed = written.product == proto.output[0] != node.outputs[0]  # which a later node makes a float
            if summed or any(name not in values for name in proto.output):
                values.update(zip(proto.output, computed(call, [values[name] for name in proto.input]), strict=True))
            self._see(call, node, values, written.form, written.constants)

    def _see(self, call: OnnxCall, node: OnnxNode, values: Values, form: str, own: Values) -> None:
        """Take in an operator of a node, on floats or between floats and integers."""
        kind, names, given = call.node.op_type, list(call.node.input), call.node.output[0]
        inputs = [values[name] if name else None for name in names]
        first = names[0] if names else ""
        if kind == "DequantizeLinear":
            if first in self.file.constants or first in own:
                shape, axis, block = np.asarray(inputs[0]).shape, call.get("axis", 1), call.get("block_size", 0)
                steps = quantised.scales_spread(widened(inputs[1]), shape, axis, block)
                self.weights[given] = np.broadcast_to(np.square(steps) / 12, shape)
            for held in (self.weights, self.rounded):
                held.update({given: held[first]} if first in held else {})
        elif kind in ROUNDERS:
            found = {name: values[name] for name in call.node.output[1:]}  # scale and zero point, while running
            self.scales |= found
            self._quantised(call, node, [*inputs, *found.values(), None][:3], values[given])
        elif kind in MOVERS and first in self.rounded:
            self.rounded[given] = computed(call, [self.rounded[first], *inputs[1:]])[0]
        elif call.operator in quantised.BEFORE_ROUNDING:
            # no product: three inputs of each factor, then its own scale
            before = quantised.BEFORE_ROUNDING[call.operator](call, *map(widened, inputs))
            self.rounded[given] = (values[given] - before) * np.asarray(inputs[len(inputs) // 3 * 3]).reshape(())
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
        if y.dtype.name not in quantised.RANGES:
            return
        low, high = quantised.RANGES[y.dtype.name]
        axis, block = call.get("axis", 1), call.get("block_size", 0)
        wide = np.asarray(inputs[0]).astype(np.float64)
        floats = [np.asarray(0.0 if one is None else widened(one), np.float64) for one in inputs[1:]]
        steps, less = (quantised.scales_spread(one, wide.shape, axis, block) for one in floats)
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
        self.rounded[given] = error if at < 0 else np.zeros(error.shape)
        if at >= 0:
            self.layers[at] = replace(self.layers[at], activations=_power(wide + error - exact))

    def _layer(self, call: OnnxCall, node: OnnxNode, inputs: list[Value], given: np.ndarray, form: str) -> None:
        """Measure one layer."""
        names = call.node.input
        left, right = (np.asarray(widened(one)) for one in inputs[:2])
        unrounded = [one - self.rounded.get(name, 0.0) for name, one in zip(names, (left, right), strict=False)]
        exact = np.asarray(computed(call, [*unrounded, *map(widened, inputs[2:])])[0])
        pairs = ((self.weights.get(names[0]), np.square(right)), (np.square(left), self.weights.get(names[1])))
        known = [pair for pair in pairs if pair[0] is not None and pair[1] is not None]
        weights = [np.mean(computed(call, [*pair, *[None] * len(inputs[2:])])[0]) for pair in known]
        self.results[call.node.output[0]] = (len(self.layers), exact)
        about, alpha = (node.index, node.key, node.operator, form, _power(exact)), call.get("alpha", 1.0)
        self.layers.append(LayerBudget(*about, float(np.sum(weights)) * alpha, _power(given - exact)))


def _power(values: np.ndarray) -> float:
    return float(np.square(values).mean()) if values.size else float("nan")
