"""A quantised file with some of its layers back in float: what they read and give is no longer rounded to integers.

Their weights stay the integers that they are, times their scale: what they lost is not in the file. A layer on integers
(QLinearConv, ConvInteger and their like) becomes the float operator that it stands for.
"""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.inspection.onnx_file import OnnxFile, in_order
from kokoro_nb.inspection.onnx_nodes import OnnxNode, copied, nodes_of, put
from kokoro_nb.inspection.quantisation_budget import QuantisationBudget
from kokoro_nb.inspection.quantised_layers import LONGEST, ON_INTEGERS, integer_products
from kokoro_nb.inspection.semantics.onnx_call import OnnxCall


def candidates(file: OnnxFile, budget: QuantisationBudget) -> tuple[str, ...]:
    """Return the ids of what can be put back into float, in the order of execution.

    Layers whose activations are rounded; and, by the node that makes integers of it, each activation that something
    reads which is no layer, and that no layer gives.
    """
    nodes = nodes_of(file.model.graph)
    layers = {one.key for one in budget.layers if one.form != "weights only"}
    alone = {one.key for one in budget.values if not one.after}
    ends = [output.name for output in file.model.graph.output]
    others = [name for node in nodes if node.key not in layers for name in node.reads]
    rounded = _rounded(nodes)
    read = {rounded[name][0] for name in (*others, *ends) if name in rounded}
    return tuple(node.key for node in nodes if node.key in layers | (read & alone))


def _rounded(nodes: Sequence[OnnxNode]) -> dict[str, tuple[str, str]]:
    """Return for each float made of integers that floats were made into the node that did so, and the float before."""
    rounders = {node.outputs[0]: node for node in nodes if node.proto.op_type == "QuantizeLinear"}
    made = {node.outputs[0]: rounders.get(node.reads[0]) for node in nodes if node.proto.op_type == "DequantizeLinear"}
    return {name: (node.key, node.reads[0]) for name, node in made.items() if node is not None}


def unrounded(file: OnnxFile, budget: QuantisationBudget, keys: Collection[str]) -> Any:
    """Return a copy of the model in which the layers and activations `keys` are not rounded.

    A value that one layer gives and another one reads stays rounded until both are put back.

    Raises
    ------
    InputError
        If what comes out of it is no graph.
    """
    model = copied(file.model)
    rewriting = _Rewriting(file, model)
    nodes = list(model.graph.node)
    owners: dict[str, str] = {}
    for layer in budget.layers:
        node = nodes[layer.index]
        made = rewriting.in_float(layer.index, node) if layer.key in keys else None
        for name in node.output if made is None else (made,):
            owners[name] = layer.key
    for value in budget.values:
        if value.after:
            owners.setdefault(value.name, value.after)
    _bypassed(model.graph, owners, keys)
    _alive(model.graph)
    in_order(model.graph, Path(file.path))
    return model


def _bypassed(graph: Any, owners: Mapping[str, str], keys: Collection[str]) -> None:
    """Have those that are put back read what was before the rounding."""
    from onnx import helper

    rounded = _rounded(nodes_of(graph))

    def before(name: str, reader: str | None) -> str:
        rounder, x = rounded.get(name, ("", name))
        layers = {one for one in (owners.get(x), reader) if one is not None}
        return x if (layers or {rounder}) <= {*keys} else name

    for node in graph.node:
        reader = next((owners[name] for name in node.output if name in owners), None)
        for k, name in enumerate(node.input):
            node.input[k] = before(name, reader)
    ends = {output.name for output in graph.output}
    for node in graph.node:
        name = node.output[0] if node.output else ""
        if name in ends and (x := before(name, None)) != name:
            node.CopyFrom(helper.make_node("Identity", [x], [name], name=node.name))


def _alive(graph: Any) -> None:
    """Take out nodes and constants that nothing reads, and what was known of values that are gone."""
    read = {output.name for output in graph.output}
    order = nodes_of(graph)
    makers = {name: node for node in order for name in node.outputs}
    queue, seen = list(read), set()
    while queue:
        node = makers.get(queue.pop())
        if node is not None and node.index not in seen:
            seen.add(node.index)
            read |= set(node.reads)
            queue += node.reads
    put(graph.node, [node.proto for node in order if node.index in seen])
    put(graph.initializer, [one for one in graph.initializer if one.name in read])
    del graph.value_info[:]


class _Rewriting:
    """Writes float layers in place of those on integers."""

    def __init__(self, file: OnnxFile, model: Any) -> None:
        self.constants, self.model, self.opsets = file.constants, model, file.opsets
        self.products = integer_products(nodes_of(file.model.graph))
        self.makers = {name: node for node in file.model.graph.node for name in node.output}

    def in_float(self, index: int, node: Any) -> str | None:
        """Put the float operator in the place of a node on integers; return what it gives, None where it stays."""
        call = OnnxCall(node, self.opsets)
        operator, attributes = ON_INTEGERS.get((call.domain, node.op_type)), call.attributes
        if operator is None:
            return None
        stem, result, last = f"{node.output[0]}_unrounded_{index}", node.output[0], node
        inputs = [*node.input, *[""] * LONGEST]
        (x, x_scale, x_zero), (w, w_scale, w_zero) = (
            [inputs[k] for k in place] for place in (operator.left, operator.right)
        )
        bias, y_scale, y_zero = (inputs[k] for k in (operator.bias, *operator.result))
        if operator.right[1] < 0:  # the node behind it multiplies by the scales
            product = self.products.get(index)
            if product is None:
                return None
            w_scale, result = product.scale, product.result
            last = next(one for one in self.model.graph.node if result in one.output)
        if operator.static:
            given = self.node("DequantizeLinear", [x, x_scale, x_zero], f"{stem}_x")
        elif operator.left[2] < 0:
            given = x
        else:
            maker = self.makers.get(x)
            if maker is None or maker.op_type != "DynamicQuantizeLinear":
                return None
            given = maker.input[0]
        weights = self.weights((w, w_scale, w_zero), operator.axis(attributes), f"{stem}_w")
        if y_scale:
            result = f"{stem}_y"
            self.node("QuantizeLinear", [result, y_scale, y_zero], node.output[0])
        factors = [given, weights]
        if bias and operator.kind == "MatMul":
            return self.replaced(last, "Add", [self.node("MatMul", factors, f"{stem}_product"), bias], result)
        if bias:
            scales = [self.constants[one].astype(np.float64).reshape(-1) for one in (x_scale, w_scale)]
            added = self.constants[bias] * scales[0] * scales[1]
            factors.append(self.constant(f"{stem}_bias", added.astype(np.float32)))
        return self.replaced(last, operator.kind, factors, result, **attributes)

    def constant(self, name: str, array: np.ndarray) -> str:
        """Add a constant and return its name."""
        from onnx import numpy_helper

        self.model.graph.initializer.append(numpy_helper.from_array(array, name))
        return name

    def node(self, kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        """Add a node and return what it gives."""
        from onnx import helper

        while not inputs[-1]:
            inputs.pop()
        self.model.graph.node.append(helper.make_node(kind, inputs, [output], name=output, **attributes))
        return output

    def weights(self, names: tuple[str, str, str], axis: int, stem: str) -> str:
        """Add what makes floats of integer weights (name, scale, zero point), and return their name."""
        integers, scale, zero = names
        if integers not in self.constants:
            return self.node("DequantizeLinear", [*names], f"{stem}_float")
        steps = self.constants[scale].astype(np.float32).reshape(-1)
        shape = () if steps.size == 1 else (-1,)
        inputs = [integers, self.constant(f"{stem}_scale", steps.reshape(shape))]
        if zero in self.constants:
            less = self.constants[zero].reshape(-1)
            less = np.broadcast_to(less, steps.shape) if less.size == 1 else less
            inputs.append(self.constant(f"{stem}_zero", np.array(less).reshape(shape)))
        return self.node("DequantizeLinear", inputs, f"{stem}_float", **({"axis": axis} if shape else {}))

    def replaced(self, node: Any, kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        """Put a node of another kind in the place of `node`, under its name."""
        from onnx import helper

        node.CopyFrom(helper.make_node(kind, inputs, [output], name=node.name, **attributes))
        return output
