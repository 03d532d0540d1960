"""A program of any format as a comparison sees it: its nodes, what they read and give, and every value in float64."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from kokoro_nb.backends.exported import Exported
from kokoro_nb.backends.signature import array_of
from kokoro_nb.errors import InputError
from kokoro_nb.inspection.onnx_file import OnnxFile
from kokoro_nb.inspection.onnx_model import OnnxNode, freeing, last_readers, nodes_of
from kokoro_nb.inspection.semantics.onnx_call import OnnxCall, widened
from kokoro_nb.inspection.value_types import Arrays, NodeIdentity, Value
from kokoro_nb.inspection.whole_file import named_constants
from kokoro_nb.storage import digest
from kokoro_nb.traces.trace import CONSTANT, TRAINED_NORM, Meaning, Operator

Observe = Callable[[str, Value], object]
ROUNDING = ("QuantizeLinear", "DynamicQuantizeLinear")
PLAIN = (bool, int, float, str, list, tuple)
SAME_AS = {
    "clamp": "clip",
    "concat": "cat",
    "maskedfill": "where",
    "nativebatchnormlegitnotraining": "batchnormalization",
}
IMPLIED = {"cumsum": {"exclusive": 0, "reverse": 0}, **{key: {"select_last_index": 0} for key in ("argmax", "argmin")}}
IMPLIED |= {"gru": {"linear_before_reset": 1}, "topk": {"largest": 1}}
"""What operators of PyTorch always do, as the attributes that other formats have for it."""
SHORT = 8  # elements of a constant inside of a loop that are written out


@dataclass(frozen=True, eq=False)
class ComparedNode(NodeIdentity):
    """One node.

    Attributes
    ----------
    reads, outputs : tuple of str
        Names of the values that it reads, constants not among them, and of those that it gives.
    constants : tuple
        For each of its arguments in order the name and the array of a constant; None for any other argument.
    attributes : dict
        Numbers and texts that belong to it, by name.
    source : str
        File and line of the code that calls it; empty where the format does not say.
    rounds : bool
        Whether what it gives is rounded to integers of a few bits, or made of such integers.
    defaults : dict
        What attributes are that it does not set, by name, as far as the definition of its operator says.
    """

    reads: tuple[str, ...]
    outputs: tuple[str, ...]
    constants: tuple[tuple[str, np.ndarray] | None, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    source: str = ""
    rounds: bool = False
    defaults: Mapping[str, Any] = field(default_factory=dict)

    @property
    def held(self) -> list[tuple[str, np.ndarray]]:
        """Its constants alone."""
        return [one for one in self.constants if one is not None]

    @property
    def trains(self) -> bool:
        """Whether it is a batch norm by the statistics of the batch."""
        return self.operator.endswith(TRAINED_NORM) or bool(self.attributes.get("training_mode"))

    @cached_property
    def kind(self) -> str:
        """The operator's name as PyTorch and ONNX share it, without domain, overload and number of axes.

        >>> [ComparedNode(0, "", one, (), ()).kind for one in ("aten.clamp.default", "com.microsoft.Clip", "LeakyRelu")]
        ['clip', 'clip', 'leakyrelu']
        >>> [ComparedNode(0, "", one, (), ()).kind for one in ("aten.conv2d.default", "ReduceMean", "Concat")]
        ['conv', 'mean', 'cat']
        """
        parts = self.operator.lower().replace("::", ".").split(".")
        name = re.sub("_|^reduce|[123]d$", "", parts[1] if parts[0] == "aten" else parts[-1])
        return SAME_AS.get(name, name)


@dataclass(frozen=True, eq=False)
class ComparedProgram:
    """A program.

    Attributes
    ----------
    label : str
        What it is called in a sentence.
    inputs, outputs : tuple of str
        Names, in order; the outputs end with the new values of its state.
    nodes : tuple of ComparedNode
        In the order of execution.
    compute : callable
        ``compute(inputs, observe)`` calls `observe` with the name and the array of each value that follows from the
        inputs, floats in float64, in the order of execution.
    drawing : str
        A node that draws at random; empty if there is none.
    open_axes : tuple
        Name and axis of each input whose length is open.
    held : mapping of str to numpy.ndarray
        Inputs that another program lacks, and the values that they have here: see `held_at`.
    """

    label: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[ComparedNode, ...]
    compute: Callable[[Mapping[str, np.ndarray], Observe], object]
    drawing: str = ""
    open_axes: tuple[tuple[str, int], ...] = ()
    meaning: Meaning | None = None
    held: Mapping[str, np.ndarray] = field(default_factory=dict)

    def held_at(self, values: Mapping[str, np.ndarray]) -> "ComparedProgram":
        """Return the program with these values for some of its inputs, which its callers do not give."""
        return replace(self, inputs=tuple(one for one in self.inputs if one not in values), held=values)

    def given(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Return all that it is computed on, of the inputs of another program: see `by_name`."""
        return {**self.held, **by_name(self.inputs, inputs, self.label)}

    @cached_property
    def makers(self) -> dict[str, ComparedNode]:
        """The node that gives each value."""
        return {name: one for one in self.nodes for name in one.outputs}

    @property
    def rounds(self) -> bool:
        """Whether a node of it rounds to integers of a few bits."""
        return any(one.rounds for one in self.nodes)


def lacking(names: Collection[str], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the given inputs that a program lacks, if all of its own are among the given ones; else none."""
    return {name: one for name, one in given.items() if name not in names} if {*names} < {*given} else {}


def by_name(names: Sequence[str], inputs: Mapping[str, Any], label: str) -> dict[str, Any]:
    """Return the inputs of another program under these names: by name if they are the same, else in order.

    Raises
    ------
    InputError
        If they are not as many as `label`, what takes them, has names for.
    """
    if len(names) != len(inputs):
        raise InputError(f"{label} takes {len(names)} inputs, and {len(inputs)} are given; nothing can be compared.")
    named = inputs if set(names) == set(inputs) else dict(zip(names, inputs.values(), strict=True))
    return {name: named[name] for name in names}


def of_onnx(file: OnnxFile) -> ComparedProgram:
    """Return an ONNX file for a comparison; values of nodes without a definition are left out."""
    nodes = nodes_of(file.model.graph)
    known = named_constants(file)
    rounded = {node.outputs[0]: node.reads[0] for node in nodes if node.proto.op_type == ROUNDING[0]}

    def compute(inputs: Mapping[str, np.ndarray], observe: Observe) -> None:
        values: dict[str, Value] = {name: widened(value) for name, value in inputs.items()}
        for node in freeing(nodes, last_readers(nodes, set()), values):
            _, _, results = file.evaluated(node, values) or ((), (), ())
            for name, value in zip(node.proto.output, results, strict=False):
                if name:
                    values[name] = value
                    observe(name, value)

    inputs, outputs = (tuple(value.name for value in several) for several in (file.inputs, file.model.graph.output))
    axes = [(value.name, *axis) for value in file.inputs for axis in enumerate(value.type.tensor_type.shape.dim)]
    opened = tuple((name, axis) for name, axis, size in axes if size.dim_param)
    drawing = next((node.key for node in nodes if node.is_random), "")
    compared = tuple(_of_node(node, known, rounded, file.opsets) for node in nodes)
    return ComparedProgram(file.path.name, inputs, outputs, compared, compute, drawing, opened)


def _of_node(node: OnnxNode, known: Arrays, rounded: Mapping[str, str], opsets: dict[str, int]) -> ComparedNode:
    call = OnnxCall(node.proto, opsets)
    attributes = {name: one for name, one in call.attributes.items() if isinstance(one, PLAIN)}
    attributes |= dict(_of_bodies(node.proto))
    constants = tuple((name, known[name]) if name in known else None for name in node.proto.input)
    reads = tuple(rounded.get(name, name) for name in node.reads if name not in known)
    rounds = node.proto.op_type in ROUNDING or any(name in rounded for name in node.reads)
    made = ComparedNode(node.index, node.key, node.operator, reads, node.outputs, constants, attributes, rounds=rounds)
    return replace(made, defaults=call.defaults)


def _of_bodies(node: Any) -> Iterator[tuple[str, Any]]:
    """Yield what the bodies of a node hold, by a name that says where: operators, constants and attributes."""
    from onnx import numpy_helper

    for body, graph in ((one.name, one.g) for one in node.attribute if one.HasField("g")):
        made = {one.name: f"input {place}" for place, one in enumerate(graph.input)}
        made |= {one.name: f"constant {place}" for place, one in enumerate(graph.initializer)}
        made |= {name: f"node {place}" for place, one in enumerate(graph.node) for name in one.output}
        yield f"{body} (its outputs)", [made.get(one.name, "outside") for one in graph.output]
        held = {f"{body} (constant {place})": one for place, one in enumerate(graph.initializer)}
        for place, inner in enumerate(graph.node):
            for name, one in OnnxCall(inner, {}).attributes.items():
                if isinstance(one, PLAIN):
                    yield f"{body} ({name} of its node {place}, {inner.op_type})", one
                elif hasattr(one, "raw_data"):
                    held[f"{body} (its node {place}, {inner.op_type})"] = one
            read = ", ".join(made.get(one, "outside") for one in inner.input)
            yield f"{body} (its node {place})", f"{inner.op_type}({read})"
            yield from ((f"{body} (its node {place}): {name}", one) for name, one in _of_bodies(inner))
        for name, array in ((name, numpy_helper.to_array(one)) for name, one in held.items()):
            yield name, array.tolist() if array.size <= SHORT else f"{array.size} values of {digest(array.tobytes())}"


def of_exported(exported: Exported, label: str, keys: Mapping[str, str] | None = None) -> ComparedProgram:
    """Return a PyTorch program for a comparison; a node's key is its operator's name, or what `keys` has for that."""
    specification = exported.specification
    drawing = next(((keys or {}).get(one.name, one.name) for one in specification.operators if one.draws), "")

    def compute(inputs: Mapping[str, np.ndarray], observe: Observe) -> None:
        specification.run(inputs, lambda name, result: observe(name, result.numpy()), double=True)

    nodes = []
    for index, one in enumerate(specification.operators):
        reads = tuple(name.removeprefix("input:") for name in one.inputs if not name.startswith(CONSTANT))
        key, constants = (keys or {}).get(one.name, one.name), _constants(exported, one)
        numbers = IMPLIED.get(one.kind, {}) | specification.numbers(one.name)
        if "bidirectional" in numbers:
            numbers["direction"] = "bidirectional" if numbers["bidirectional"] else "forward"
        source = specification.source_line(one.name)
        nodes.append(ComparedNode(index, key, one.op, reads, (one.name,), constants, numbers, source))
    names, states = (spec.name for spec in exported.inputs), filter(None, specification.state.values())
    outputs = (*specification.givers.values(), *states)
    return ComparedProgram(label, tuple(names), outputs, tuple(nodes), compute, drawing, meaning=specification)


def _constants(exported: Exported, operator: Operator) -> tuple[tuple[str, np.ndarray], ...]:
    """Return the constants of an operator, tensors and then numbers."""
    program = exported.specification.program
    held = {**program.constants, **program.state_dict}
    names = [one.removeprefix(CONSTANT) for one in operator.inputs if one.startswith(CONSTANT)]
    numbers = exported.specification.numbers(operator.name)
    floats = ((name, np.asarray(one)) for name, one in numbers.items() if isinstance(one, float) or name == "other")
    return (*((name, array_of(held[name])) for name in names), *floats)
