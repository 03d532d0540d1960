"""A quantised file with some of its layers back in float: what they read and give is no longer rounded to integers.

Their weights stay the integers that they are, times their scale: what they lost is not in the file. A layer on integers
(QLinearConv, ConvInteger and their like) becomes the float operator that it stands for.
"""

from collections.abc import Collection, Mapping
from typing import Any

from kokoro_nb.inspection.onnx_file import OnnxFile
from kokoro_nb.inspection.onnx_nodes import OnnxNode, copied, nodes_of, put
from kokoro_nb.inspection.quantisation_budget import QuantisationBudget
from kokoro_nb.inspection.quantised_layers import IntegerLayers


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
    rounders = _rounders(nodes)
    read = {rounders[name].key for name in (*others, *ends) if name in rounders}
    return tuple(node.key for node in nodes if node.key in layers | (read & alone))


def _rounders(nodes: Collection[OnnxNode]) -> dict[str, OnnxNode]:
    """Return for each float made of integers that floats were made into the node that did so."""
    kinds = ("QuantizeLinear", "DynamicQuantizeLinear")
    rounders = {node.outputs[0]: node for node in nodes if node.proto.op_type in kinds}
    made = {node.outputs[0]: rounders.get(node.reads[0]) for node in nodes if node.proto.op_type == "DequantizeLinear"}
    return {name: node for name, node in made.items() if node is not None}


def unrounded(file: OnnxFile, budget: QuantisationBudget, keys: Collection[str]) -> Any:
    """Return a copy of the model in which the layers and activations `keys` are not rounded.

    A value that one layer gives and another one reads stays rounded until both are put back.
    """
    from onnx import numpy_helper

    nodes = nodes_of(file.model.graph)
    model, layers = copied(file.model), IntegerLayers(file, nodes)
    graph = model.graph
    owners = {value.name: value.after for value in budget.values if value.after}
    written: dict[int, list[Any]] = {}
    taken: set[str] = set()
    for layer in budget.layers:
        node = nodes[layer.index]
        found = layers.written_out(node) if layer.key in keys else None
        if found is not None and found.result:
            written[node.index] = found.nodes
            taken.add(found.result)
            graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in found.constants.items())
        names = node.outputs if node.index not in written or found is None else (found.product, found.result)
        owners |= dict.fromkeys(names, layer.key)
    kept = [written.get(node.index, [] if taken & {*node.outputs} else [node.proto]) for node in nodes]
    put(graph.node, [one for several in kept for one in several])
    _bypass(graph, owners, keys)
    _remove_unread(graph)
    return model


def _bypass(graph: Any, owners: Mapping[str, str], keys: Collection[str]) -> None:
    """Have those that are put back read what was before the rounding."""
    from onnx import helper

    rounders = _rounders(nodes_of(graph))

    def before(name: str, reader: str | None) -> str:
        rounder = rounders.get(name)
        if rounder is None:
            return name
        x = rounder.reads[0]
        giver = owners.get(x) if rounder.proto.op_type == "QuantizeLinear" else None
        layers = {one for one in (giver, reader) if one is not None}
        return x if (layers or {rounder.key}) <= {*keys} else name

    for node in graph.node:
        reader = next((owners[name] for name in node.output if name in owners), None)
        for k, name in enumerate(node.input):
            node.input[k] = before(name, reader)
    ends = {output.name for output in graph.output}
    for node in graph.node:
        name = node.output[0] if node.output else ""
        if name in ends and (x := before(name, None)) != name:
            node.CopyFrom(helper.make_node("Identity", [x], [name], name=node.name))


def _remove_unread(graph: Any) -> None:
    """Take out nodes and constants that nothing reads, and what was known of values that are gone."""
    read, kept = {output.name for output in graph.output}, []
    for node in reversed(nodes_of(graph)):
        if read & {*node.outputs}:
            kept.append(node.proto)
            read |= {*node.reads}
    put(graph.node, reversed(kept))
    put(graph.initializer, [one for one in graph.initializer if one.name in read])
    del graph.value_info[:]
