"""Programs made from an exported one: its parts, and the whole with further outputs; operators keep their names."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from kokoro_nb.backends.called_operators import is_element, user_results
from kokoro_nb.backends.exported import Exported
from kokoro_nb.backends.signature import Arrays, spec_of
from kokoro_nb.errors import InputError
from kokoro_nb.torch_private import structure

# no input or output has the name of a node: a backend might take it for another result of that name
_FED, _GIVES = "fed_", "result_"


@dataclass(frozen=True)
class Segment:
    """A part of a program.

    Attributes
    ----------
    exported : Exported
        The part. Its operators go by the names that they have in the whole.
    fed : dict
        Name of an input of the part -> name of the operator of the whole whose result it is.
    turned : dict
        Name of such an input -> the order in which its axes are given: the one in which they lie in memory there.
    results : dict
        Name of an operator -> name of the output that is its result.
    """

    exported: Exported
    fed: Mapping[str, str]
    turned: Mapping[str, tuple[int, ...]]
    results: Mapping[str, str]

    def inputs(self, inputs: Arrays, captured: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """Return what the part is run on.

        Parameters
        ----------
        inputs : mapping
            Array of each input of the whole by its name.
        captured : mapping
            Array of each operator's result in the whole by its name.
        """
        turned = {name: np.transpose(captured[own], self.turned[name]) for name, own in self.fed.items()}
        known = {**inputs, **{name: np.asarray(value, order="C") for name, value in turned.items()}}
        return {spec.name: known[spec.name] for spec in self.exported.inputs}

    def taken(self, outputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the results among the `outputs` of a run, by the names of the operators."""
        return {name: outputs[output] for name, output in self.results.items()}


def part(exported: Exported, given: Collection[str], wanted: Collection[str]) -> Segment:
    """Return what computes `wanted` from `given` and from the inputs of the program.

    Parameters
    ----------
    exported : Exported
        The whole.
    given : collection of str
        Operators that are not computed: their results are inputs of the part, as far as it reads them.
    wanted : collection of str
        Operators whose results are its outputs, in this order; none of `given`.

    Raises
    ------
    InputError
        If there is no such operator in the program, or nothing is wanted.
    """
    nodes = known_nodes(exported, (*given, *wanted))
    ends = {nodes[name]: name for name in given}
    targets = [nodes[name] for name in wanted]
    if not targets:
        raise InputError("A part without outputs computes nothing; name at least one operator that is wanted.")
    needed = needed_for(targets, ends)
    names = {node: f"{_FED}{node.name}" for node in ends if node in needed}
    outputs = {f"{_GIVES}{node.name}": node for node in targets}
    made, turned = assembled(exported, needed, names, outputs)
    fed = {names[node]: name for node, name in ends.items() if node in names}
    return Segment(made, fed, turned, {name: f"{_GIVES}{nodes[name].name}" for name in wanted})


def real_reads(exported: Exported, name: str) -> list[str]:
    """Return the operators whose results `name` reads; of complex ones, which no input is, those that they read."""
    operators = {one.name: one for one in exported.specification.operators}
    found, pending = dict[str, None](), list(operators[name].inputs)
    while pending:
        read = pending.pop(0)
        if read in operators and operators[read].dtype.startswith("complex"):
            pending += operators[read].inputs
        elif read in operators:
            found[read] = None
    return list(found)


def with_outputs(exported: Exported, names: Collection[str]) -> Exported:
    """Return the program with the results of operators as further outputs, which go by the operators' names.

    Any backend can be looked into so, by compiling once more; but what it compiles is another graph, and what it joined
    across a result it no longer joins.

    Parameters
    ----------
    exported : Exported
        The program.
    names : collection of str
        Operators. One whose result is an output already is not added: see `output_of`.

    Raises
    ------
    InputError
        If there is no such operator in the program, or the program has an output of that name.
    """
    nodes = known_nodes(exported, names)
    graph = exported.specification.program.graph
    own = user_results(exported.specification.program)
    added = {name: nodes[name] for name in dict.fromkeys(names) if nodes[name] not in own}
    taken = sorted(set(added) & set(exported.outputs))
    if taken:
        raise InputError(f"The program has an output called '{taken[0]}', as one of its operators is; rename it.")
    outputs = dict(zip(exported.outputs, own, strict=True)) | added
    needed = needed_for(outputs.values(), ()) | {node for node in graph.nodes if node.op == "placeholder"}
    return assembled(exported, needed, {}, outputs)[0]


def output_of(exported: Exported) -> dict[str, str]:
    """Return the operators whose results are outputs of the program: name of the operator -> name of the output."""
    own = user_results(exported.specification.program)
    names: dict[Any, str] = {}
    for name, node in zip(exported.outputs, own, strict=True):
        names.setdefault(node, name)
    return {name: names[node] for name, node in result_nodes(exported).items() if node in names}


def result_nodes(exported: Exported) -> dict[str, Any]:
    """Return the node of the specification's graph that holds each operator's result."""
    graph = exported.specification.program.graph
    return exported.specification.results(node for node in graph.nodes if node.op == "call_function")


def known_nodes(exported: Exported, names: Collection[str]) -> dict[str, Any]:
    """Return `result_nodes`, in which all of `names` are.

    Raises
    ------
    InputError
        If one is not.
    """
    nodes = result_nodes(exported)
    for name in names:
        if name not in nodes:
            raise InputError(f"The program has no operator '{name}' whose result is one tensor; see its `operators`.")
    return nodes


def needed_for(targets: Collection[Any], ends: Collection[Any]) -> set[Any]:
    """Return all nodes that `targets` are computed from, not beyond `ends`."""
    found: set[Any] = set()
    pending = list(targets)
    while pending:
        node = pending.pop()
        if node not in found:
            found.add(node)
            pending += [] if node in ends else node.all_input_nodes
    return found


def assembled(
    exported: Exported, needed: Collection[Any], fed: Mapping[Any, str], outputs: Mapping[str, Any]
) -> tuple[Exported, dict[str, tuple[int, ...]]]:
    """Build a program of nodes of the specification's graph, each with the provenance that it has there.

    Parameters
    ----------
    exported : Exported
        The whole.
    needed : collection of torch.fx.Node
        All that the outputs are computed from, placeholders included.
    fed : dict
        Nodes that become inputs -> name of the input.
    outputs : dict
        Name -> node.

    Returns
    -------
    Exported
        The program.
    dict
        Name of an input of `fed` -> the order of its axes.
    """
    import torch
    from torch.export.graph_signature import InputKind, InputSpec, TensorArgument

    whole = exported.specification.program
    graph, copies = torch.fx.Graph(), {}
    signed = [spec.arg.name for spec in whole.graph_signature.input_specs if spec.kind == InputKind.USER_INPUT]
    own = dict(zip(signed, exported.specification.inputs, strict=True))
    inputs, named = [], {}
    placeholders = [node for node in whole.graph.nodes if node.op == "placeholder"]
    for node, spec in zip(placeholders, whole.graph_signature.input_specs, strict=True):
        if node in needed:
            copies[node] = graph.node_copy(node)
            named[copies[node].name] = own.get(node.name, node.name)  # a copy of `input`, a builtin, is `input_1`
            inputs.append(InputSpec(spec.kind, TensorArgument(copies[node].name), spec.target, spec.persistent))
    turned, open_ends = {}, []
    for node in (node for node in whole.graph.nodes if node in fed):
        placeholder, order = _input(graph, node, fed[node])
        turned[placeholder.name] = order
        inputs.append(InputSpec(InputKind.USER_INPUT, TensorArgument(placeholder.name), None))
        open_ends.append((node, placeholder, order))
    for node, placeholder, order in open_ends:
        copies[node] = _turned_back(graph, node, placeholder, order)
    for node in whole.graph.nodes:
        if node in needed and node not in copies and node.op != "output":
            copies[node] = graph.node_copy(node, copies.__getitem__)
    leaves = tuple(copies[node] for node in outputs.values())
    graph.output(leaves).meta["val"] = tuple(leaf.meta["val"] for leaf in leaves)
    return _wrapped(exported, graph, inputs, named, tuple(outputs)), turned


def _wrapped(
    exported: Exported, graph: Any, inputs: list[Any], named: Mapping[str, str], outputs: tuple[str, ...]
) -> Exported:
    import torch
    from torch.export.exported_program import ModuleCallEntry, ModuleCallSignature
    from torch.export.graph_signature import ExportGraphSignature, InputKind, OutputKind, OutputSpec, TensorArgument

    whole, (leaves,) = exported.specification.program, graph.output_node().args
    results = [OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(leaf.name), None) for leaf in leaves]
    own = [spec for spec in inputs if spec.kind == InputKind.USER_INPUT]
    values = {node.name: node.meta["val"] for node in graph.nodes if node.op == "placeholder"}
    specs = tuple(spec_of(named.get(spec.arg.name, spec.arg.name), values[spec.arg.name]) for spec in own)
    examples = {spec.name: torch.zeros(spec.shape, dtype=getattr(torch, spec.dtype)) for spec in specs}
    call = ModuleCallSignature(
        inputs=[], outputs=[], in_spec=structure(((), examples)), out_spec=structure((0,) * len(results))
    )
    targets = {spec.target for spec in inputs if spec.target is not None}
    program = torch.export.ExportedProgram(
        root=whole.graph_module,
        graph=graph,
        graph_signature=ExportGraphSignature(inputs, results),
        state_dict={name: value for name, value in whole.state_dict.items() if name in targets},
        range_constraints=whole.range_constraints,
        module_call_graph=[ModuleCallEntry("", call)],
        example_inputs=((), examples),
        constants={name: value for name, value in whole.constants.items() if name in targets},
        verifiers=whole.verifiers,
    )
    named_by = exported.specification.named_by or exported.specification
    module: Any = program.module()
    module.output_names = outputs
    return Exported(module, program, specs, outputs, (), exported.seconds, named_by, functional=program)


def _input(graph: Any, node: Any, name: str) -> tuple[Any, tuple[int, ...]]:
    """Add an input for the result of `node`: contiguous, as every runtime wants it, with its axes in memory order."""
    value = node.meta["val"]
    order = tuple(sorted(range(value.dim()), key=lambda axis: -value.stride(axis)))
    if not value.permute(order).is_contiguous():  # it has gaps, or holds elements several times: no view has that
        order = tuple(range(value.dim()))
    placeholder = graph.placeholder(name)
    placeholder.meta["val"] = value.new_empty([value.shape[axis] for axis in order])
    return placeholder, order


def _turned_back(graph: Any, node: Any, placeholder: Any, order: tuple[int, ...]) -> Any:
    """Return the input with its axes in their places, so that it lies in memory as the result of `node` does."""
    import torch

    if order == tuple(range(len(order))):
        return placeholder
    back = [order.index(axis) for axis in range(len(order))]
    name = f"{placeholder.name}_turned"  # a name that no node of the whole has
    turned = graph.create_node("call_function", torch.ops.aten.permute.default, (placeholder, back), name=name)
    turned.meta["val"] = placeholder.meta["val"].permute(back)
    return turned


@dataclass(frozen=True, eq=False)
class Cuts:
    """A program as a row of units: one operator that computes, and the views and the like that follow it.

    Two operators are in one unit where a value between them is no operator's result, and so has nothing that it could
    be replaced by.
    """

    exported: Exported

    def __len__(self) -> int:
        return len(self._starts) - 1

    def names(self, first: int, stop: int) -> tuple[str, ...]:
        """Return the operators of the units from `first` to before `stop` that have a result, in their order."""
        nodes = self._nodes[self._starts[first] : self._starts[stop]]
        return tuple(self._names[node] for node in nodes if node in self._names)

    def part(self, first: int, stop: int, inside: bool = False) -> Segment | None:
        """Return the units from `first` to before `stop` as a program, fed with the results of all before them.

        Parameters
        ----------
        first, stop : int
            Units, counted from 0.
        inside : bool
            Make an output of every operator's result; else of those that are read later, or are outputs.

        Returns
        -------
        Segment or None
            None if nothing in it is read later.
        """
        end = self._starts[stop]
        nodes = [node for node in self._nodes[self._starts[first] : end] if node in self._names]
        wanted = [self._names[node] for node in nodes if inside or self._last_read[node] >= end]
        if not wanted:
            return None
        return part(self.exported, {*self.names(0, first)}, wanted)

    @cached_property
    def _nodes(self) -> list[Any]:
        graph = self.exported.specification.program.graph
        return [node for node in graph.nodes if node.op == "call_function"]

    @cached_property
    def _names(self) -> dict[Any, str]:
        return {node: name for name, node in result_nodes(self.exported).items()}

    @cached_property
    def _last_read(self) -> dict[Any, int]:
        """Node -> position of the last node that reads it; that of an output is beyond all."""
        positions = {node: place for place, node in enumerate(self._nodes)}
        beyond = len(self._nodes)
        return {
            node: max((positions.get(user, beyond) for user in node.users), default=positions[node])
            for node in self._nodes
        }

    @cached_property
    def _starts(self) -> list[int]:
        """Positions at which a unit begins, and the one behind the last."""
        starts = [0]
        needed_until = 0  # the last position that reads a value which is no operator's result
        for place, node in enumerate(self._nodes):
            if place and place > needed_until and _computes(node):
                starts.append(place)
            if node not in self._names:
                needed_until = max(needed_until, self._last_read[node])
        return [*starts, len(self._nodes)]


def _computes(node: Any) -> bool:
    """Return whether a node computes something, rather than showing what is there in another way."""
    import torch

    return not (
        getattr(node.target, "is_view", False) or is_element(node) or node.target is torch.ops.aten._unsafe_view.default
    )
