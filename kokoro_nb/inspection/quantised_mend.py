"""A quantised file with the fewest layers back in float, found by measuring: which they are is the advice.

What the output loses is not seen at a layer: one with little noise of its own may pass it on much louder. So layers are
rounded alone, in groups, and the loudest group is halved again and again: noises of several roundings add up as powers
do, so that a group without noise holds no layer that matters. Then each layer that was put back is withdrawn alone, and
stays withdrawn if the limit holds without it.

How much is enough the weights say: what they lost in becoming integers is not in the file and stays lost, and
once the activations make less noise than that, more layers in float help little. It is measured by drawing: weights
that were rounded lie within half a step of what is left of them, and any draw from there is as likely as the truth.

Of a layer in float, what it reads and gives is no longer rounded; its weights stay the integers that they are, times
their scale. A layer on integers (QLinearConv and its like) becomes the float operator that it stands for.
"""

from collections.abc import Collection, Iterator, Mapping
from copy import deepcopy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.errors import InputError
from kokoro_nb.inspection.file_run import FileRun
from kokoro_nb.inspection.mended_file import Measured, MendedFile, lowest_level, mended_file
from kokoro_nb.inspection.onnx_file import OnnxFile
from kokoro_nb.inspection.onnx_model import OnnxNode, nodes_of, put, run_once
from kokoro_nb.inspection.quantisation_budget import ROUNDERS, IntegerLayers, QuantisationBudget
from kokoro_nb.inspection.semantics.onnx_call import OnnxCall, computed, widened
from kokoro_nb.inspection.value_types import Tell
from kokoro_nb.inspection.whole_file import AUDIBLE
from kokoro_nb.locate.search import loudest


def quantised_mend(seen: FileRun, path: str | Path, limit: float | None = None, tell: Tell = str) -> MendedFile:
    """Put the fewest layers of a quantised file back into float, and write it.

    Parameters
    ----------
    seen : FileRun
        The file and the inputs on which it is measured.
    path : path
        Where the mended file is written.
    limit : float, optional
        The least level of every output over the noise of integer activations, dB; by default that over the noise of
        the rounded weights, and 20 dB where no weights were rounded.
    tell : callable
        Is given a line on how far it is.

    Raises
    ------
    InputError
        If no activation of the file is rounded, or the limit is not reached with all layers in float.
    """
    every = candidates(seen.file, seen.budget)
    if not every:
        raise InputError(f"{seen.file.path} rounds no activations to integers, so that no layer goes back to float.")

    made = partial(unrounded, seen.file, seen.budget)
    right = run_once(made(every), seen.inputs)

    def level(model: Any) -> float:
        return lowest_level(run_once(model, seen.inputs), right)

    weights = level(_with_drawn_weights(made(every)))
    if limit is None:
        limit = AUDIBLE if np.isinf(weights) else weights

    def starts(measured: Measured) -> Iterator[list[str]]:
        return loudest(every, lambda group: measured(frozenset(every) - {*group}))

    about = ("layers", "the noise of integer activations")
    return replace(mended_file(about, every, made, level, limit, starts, path, tell), weights=weights)


def _with_drawn_weights(drawn: Any) -> Any:
    """Change the weights of a model to a draw from what is rounded to them, and return the model."""
    import onnx
    from onnx import numpy_helper

    constants = {one.name: one for one in drawn.graph.initializer}
    generator = np.random.default_rng(0)
    for node in drawn.graph.node:
        if node.op_type != "DequantizeLinear" or any(name and name not in constants for name in node.input):
            continue
        integers, *others = (widened(numpy_helper.to_array(constants[name])) for name in node.input if name)
        if integers.ndim < 2 or integers.dtype.itemsize > 2:  # a bias is rounded to a step that is far smaller
            continue
        moved = integers + generator.uniform(-0.5, 0.5, integers.shape)
        (moved,) = computed(OnnxCall(node, {}), [moved, *others])
        constant = numpy_helper.from_array(moved.astype(np.float32))
        node.CopyFrom(onnx.helper.make_node("Constant", [], list(node.output), name=node.name, value=constant))
    return drawn


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
    rounders = {node.outputs[0]: node for node in nodes if node.proto.op_type in ROUNDERS}
    made = {node.outputs[0]: rounders.get(node.reads[0]) for node in nodes if node.proto.op_type == "DequantizeLinear"}
    return {name: node for name, node in made.items() if node is not None}


def unrounded(file: OnnxFile, budget: QuantisationBudget, keys: Collection[str]) -> Any:
    """Return a copy of the model in which the layers and activations `keys` are not rounded.

    A value that one layer gives and another one reads stays rounded until both are put back.
    """
    from onnx import numpy_helper

    nodes = nodes_of(file.model.graph)
    model, layers = deepcopy(file.model), IntegerLayers(file, nodes)
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
