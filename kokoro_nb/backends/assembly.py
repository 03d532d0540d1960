"""A program put together from nodes of an exported one, which keep their names and what they come from."""

from collections.abc import Collection, Mapping
from typing import Any

from kokoro_nb.backends.exported import Exported
from kokoro_nb.backends.signature import TensorSpec, dtype_name, open_axes, sizes


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
    from torch.export.graph_signature import InputKind, InputSpec, OutputKind, OutputSpec, TensorArgument

    whole = exported.specification.program
    graph, copies = torch.fx.Graph(), {}
    own = dict(zip(_placeholder_names(whole), exported.specification.inputs, strict=True))
    inputs, named = [], {}
    for node, spec in zip(_placeholders(whole), whole.graph_signature.input_specs, strict=True):
        if node in needed:
            copies[node] = graph.node_copy(node)
            named[copies[node].name] = own.get(node.name, node.name)  # a copy of `input`, a builtin, is `input_1`
            inputs.append(InputSpec(spec.kind, TensorArgument(copies[node].name), spec.target, spec.persistent))
    turned = {}
    open_ends = []
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
    results = [OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(leaf.name), None) for leaf in leaves]
    return _wrapped(exported, graph, inputs, named, results, tuple(outputs)), turned


def _wrapped(
    exported: Exported,
    graph: Any,
    inputs: list[Any],
    named: Mapping[str, str],
    results: list[Any],
    outputs: tuple[str, ...],
) -> Exported:
    import torch
    from torch.export.exported_program import ModuleCallEntry, ModuleCallSignature
    from torch.export.graph_signature import ExportGraphSignature, InputKind
    from torch.utils._pytree import tree_structure

    whole = exported.specification.program
    own = [spec for spec in inputs if spec.kind == InputKind.USER_INPUT]
    values = {node.name: node.meta["val"] for node in graph.nodes if node.op == "placeholder"}
    specs = tuple(
        TensorSpec(
            named.get(spec.arg.name, spec.arg.name),
            sizes(values[spec.arg.name].shape),
            dtype_name(values[spec.arg.name].dtype),
            open_axes(values[spec.arg.name].shape),
        )
        for spec in own
    )
    examples = {spec.name: torch.zeros(spec.shape, dtype=getattr(torch, spec.dtype)) for spec in specs}
    call = ModuleCallSignature(
        inputs=[],
        outputs=[],
        in_spec=tree_structure(((), examples)),
        out_spec=tree_structure((0,) * len(results)),
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


def _placeholders(program: Any) -> list[Any]:
    return [node for node in program.graph.nodes if node.op == "placeholder"]


def _placeholder_names(program: Any) -> list[str]:
    """Return the names of the nodes that stand for the program's own inputs."""
    from torch.export.graph_signature import InputKind

    specs = program.graph_signature.input_specs
    return [spec.arg.name for spec in specs if spec.kind == InputKind.USER_INPUT]


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
