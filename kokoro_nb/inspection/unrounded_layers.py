"""A quantised file with some of its layers back in float: what they read and give is no longer rounded to integers.

Their weights stay the integers that they are, times their scale: what they lost is not in the file. A layer on integers
(QLinearConv, ConvInteger and their like) becomes the float operator that it stands for.
"""

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.inspection.onnx_file import OnnxFile, in_order
from kokoro_nb.inspection.onnx_nodes import copied, nodes_of, put
from kokoro_nb.inspection.quantisation_budget import QuantisationBudget
from kokoro_nb.inspection.quantised_layers import integer_products
from kokoro_nb.inspection.semantics.onnx_call import MICROSOFT

STANDARD = "ai.onnx"


def candidates(file: OnnxFile, budget: QuantisationBudget) -> tuple[str, ...]:
    """Return the ids of what can be put back into float, in the order of execution.

    Layers whose activations are rounded; and, by the node that makes integers of it, each activation that something
    reads which is no layer, and that no layer gives.
    """
    nodes = nodes_of(file.model.graph)
    layers = {one.key for one in budget.layers if one.form != "weights only"}
    computing = {name for node in nodes if node.key in layers for name in node.outputs}
    alone = {one.key for one in budget.values if not one.after}
    rounders = {node.outputs[0]: node.key for node in nodes if node.proto.op_type == "QuantizeLinear"}
    floats = {
        node.outputs[0]: rounders[node.proto.input[0]]
        for node in nodes
        if node.proto.op_type == "DequantizeLinear" and rounders.get(node.proto.input[0]) in alone
    }
    ends = [output.name for output in file.model.graph.output]
    others = [name for node in nodes if not computing & {*node.outputs} for name in node.reads]
    read = {floats[name] for name in (*others, *ends) if name in floats}
    return tuple(node.key for node in nodes if node.key in layers | read)


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
        made = None
        if layer.key in keys:
            maker = _MAKERS.get((node.domain.removeprefix(STANDARD), node.op_type))
            made = maker(rewriting, layer.index, node) if maker else None
        for name in node.output if made is None else (made,):
            owners[name] = layer.key
    for value in budget.values:
        if value.after:
            owners.setdefault(value.name, value.after)
    _bypassed(model.graph, owners, {nodes[i].output[0]: key for i, key in _rounders(file)}, keys)
    _alive(model.graph)
    in_order(model.graph, Path(file.path))
    return model


def _rounders(file: OnnxFile) -> list[tuple[int, str]]:
    return [(node.index, node.key) for node in nodes_of(file.model.graph) if node.proto.op_type == "QuantizeLinear"]


def _bypassed(graph: Any, owners: dict[str, str], rounders: dict[str, str], keys: Collection[str]) -> None:
    """Have those that are put back read what was before the rounding."""
    from onnx import helper

    before = {node.output[0]: node.input[0] for node in graph.node if node.op_type == "QuantizeLinear"}
    pairs = {
        node.output[0]: (node.input[0], before[node.input[0]])
        for node in graph.node
        if node.op_type == "DequantizeLinear" and node.input[0] in before
    }

    def goes(rounded: str, reader: str | None) -> bool:
        integers, x = pairs[rounded]
        layers = {one for one in (owners.get(x), reader) if one is not None}
        return layers <= set(keys) if layers else rounders.get(integers, "") in keys

    for node in graph.node:
        reader = next((owners[name] for name in node.output if name in owners), None)
        for k, name in enumerate(node.input):
            if name in pairs and goes(name, reader):
                node.input[k] = pairs[name][1]
    ends = {output.name for output in graph.output}
    for k, node in enumerate(graph.node):
        name = node.output[0] if node.output else ""
        if name in ends and name in pairs and goes(name, None):
            graph.node[k].CopyFrom(helper.make_node("Identity", [pairs[name][1]], [name], name=node.name))


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
        self.constants, self.model = file.constants, model
        self.products = integer_products(nodes_of(file.model.graph))
        self.makers = {name: node for node in file.model.graph.node for name in node.output}

    def constant(self, name: str, array: np.ndarray) -> str:
        """Add a constant and return its name."""
        from onnx import numpy_helper

        self.model.graph.initializer.append(numpy_helper.from_array(array, name))
        return name

    def node(self, kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        """Add a node and return what it gives."""
        from onnx import helper

        self.model.graph.node.append(helper.make_node(kind, inputs, [output], name=output, **attributes))
        return output

    def weights(self, names: tuple[str, str, str], axis: int, stem: str) -> str:
        """Add what makes floats of integer weights (name, scale, zero point), and return their name."""
        integers, scale, zero = names
        steps = self.constants[scale].astype(np.float32).reshape(-1)
        shape = () if steps.size == 1 else (-1,)
        inputs = [integers, self.constant(f"{stem}_scale", steps.reshape(shape))]
        if zero and zero in self.constants:
            less = self.constants[zero].reshape(-1)
            less = np.broadcast_to(less, steps.shape) if less.size == 1 else less
            inputs.append(self.constant(f"{stem}_zero", np.array(less).reshape(shape)))
        return self.node("DequantizeLinear", inputs, f"{stem}_float", **({"axis": axis} if shape else {}))

    def around(self, node: Any, stem: str, x: tuple[str, ...], y: tuple[str, ...]) -> tuple[str, str]:
        """Add what makes floats of its input, and integers of its result; return input and result."""
        given = self.node("DequantizeLinear", [one for one in x if one], f"{stem}_x")
        result = f"{stem}_y"
        self.node("QuantizeLinear", [result, *(one for one in y if one)], node.output[0])
        return given, result

    def bias(self, name: str, scales: tuple[str, str], stem: str) -> list[str]:
        """Add a bias of integers as floats."""
        if not name:
            return []
        x, w = (self.constants[one].astype(np.float64).reshape(-1) for one in scales)
        return [self.constant(f"{stem}_bias", (self.constants[name] * x * w).astype(np.float32))]


def _stem(index: int, node: Any) -> str:
    return f"{node.output[0]}_unrounded_{index}"


def _attributes(node: Any, *left_out: str) -> dict[str, Any]:
    from onnx import helper

    return {one.name: helper.get_attribute_value(one) for one in node.attribute if one.name not in left_out}


def _qlinear_conv(write: _Rewriting, index: int, node: Any) -> str:
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias = [*node.input, ""][:9]
    stem = _stem(index, node)
    given, result = write.around(node, stem, (x, x_scale, x_zero), (y_scale, y_zero))
    weights = write.weights((w, w_scale, w_zero), 0, f"{stem}_w")
    added = write.bias(bias, (x_scale, w_scale), stem)
    return _replaced(write, node, "Conv", [given, weights, *added], result, **_attributes(node))


def _qlinear_matmul(write: _Rewriting, index: int, node: Any) -> str:
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = node.input
    stem = _stem(index, node)
    given, result = write.around(node, stem, (a, a_scale, a_zero), (y_scale, y_zero))
    if b in write.constants:
        other = write.weights((b, b_scale, b_zero), -1, f"{stem}_b")
    else:
        other = write.node("DequantizeLinear", [b, b_scale, b_zero], f"{stem}_b")
    return _replaced(write, node, "MatMul", [given, other], result)


def _qgemm(write: _Rewriting, index: int, node: Any) -> str:
    a, a_scale, a_zero, b, b_scale, b_zero, bias, y_scale, y_zero = [*node.input, "", "", ""][:9]
    stem = _stem(index, node)
    given = write.node("DequantizeLinear", [a, a_scale, a_zero], f"{stem}_x")
    result = node.output[0]
    if y_scale:
        result = f"{stem}_y"
        write.node("QuantizeLinear", [result, *(one for one in (y_scale, y_zero) if one)], node.output[0])
    weights = write.weights((b, b_scale, b_zero), 0 if _attributes(node).get("transB") else 1, f"{stem}_w")
    added = write.bias(bias, (a_scale, b_scale), stem)
    return _replaced(write, node, "Gemm", [given, weights, *added], result, **_attributes(node))


def _integer_product(write: _Rewriting, index: int, node: Any) -> str | None:
    product, maker = write.products.get(index), write.makers.get(node.input[0])
    if product is None or maker is None or maker.op_type != "DynamicQuantizeLinear":
        return None
    conv, stem = node.op_type == "ConvInteger", _stem(index, node)
    zero = node.input[3] if len(node.input) > 3 else ""
    weights = write.weights((node.input[1], product.scale, zero), 0 if conv else -1, f"{stem}_w")
    last = next(one for one in write.model.graph.node if product.result in one.output)
    kind = "Conv" if conv else "MatMul"
    return _replaced(write, last, kind, [maker.input[0], weights], product.result, **_attributes(node))


def _to_float(write: _Rewriting, index: int, node: Any) -> str | None:
    a, b, _, b_scale, _, b_zero, bias = [*node.input, "", "", ""][:7]
    maker = write.makers.get(a)
    if maker is None or maker.op_type != "DynamicQuantizeLinear":
        return None
    return _plain_product(write, index, node, maker.input[0], (b, b_scale, b_zero), bias)


def _dynamic(write: _Rewriting, index: int, node: Any) -> str:
    a, b, b_scale, b_zero, bias = [*node.input, "", ""][:5]
    return _plain_product(write, index, node, a, (b, b_scale, b_zero), bias)


def _plain_product(write: _Rewriting, index: int, node: Any, a: str, b: tuple[str, str, str], bias: str) -> str:
    stem, result = _stem(index, node), node.output[0]
    weights = write.weights(b, -1, f"{stem}_w")
    if not bias:
        return _replaced(write, node, "MatMul", [a, weights], result)
    write.node("MatMul", [a, weights], f"{stem}_product")
    return _replaced(write, node, "Add", [f"{stem}_product", bias], result)


def _replaced(write: _Rewriting, node: Any, kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
    """Put a node of another kind in the place of `node`, under its name."""
    from onnx import helper

    node.CopyFrom(helper.make_node(kind, inputs, [output], name=node.name, **attributes))
    return output


_MAKERS: dict[tuple[str, str], Callable[[_Rewriting, int, Any], str | None]] = {
    ("", "QLinearConv"): _qlinear_conv,
    ("", "QLinearMatMul"): _qlinear_matmul,
    ("", "ConvInteger"): _integer_product,
    ("", "MatMulInteger"): _integer_product,
    (MICROSOFT, "QGemm"): _qgemm,
    (MICROSOFT, "MatMulIntegerToFloat"): _to_float,
    (MICROSOFT, "DynamicQuantizeMatMul"): _dynamic,
}
