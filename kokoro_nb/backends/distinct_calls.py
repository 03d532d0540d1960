"""Decomposition of an exported program, each distinct call of an operator once; the program is PyTorch's own.

PyTorch traces the whole program anew to decompose it, a millisecond and more for each operator. Most of them stay as
they are, and the rest are the same few calls over and over. Here those alone are put into a program, PyTorch decomposes
that, and what it made of each of them stands in the place of each such call.
"""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from kokoro_nb.backends.called_operators import is_composite, is_element, origin
from kokoro_nb.backends.in_place import leaves_alone, same_tensor, without_writing, writes

Decompose = Callable[[Any, Mapping[Any, Any]], Any]
EDITED = "edited by hand"  # in the `meta` of a graph module: what is noted of its results may be those of before
_REPLACED = frozenset(("lift", "lift_fresh", "lift_fresh_copy"))  # by any trace
_KINDS = ("val", "tensor_meta", "original_aten")  # what is noted of the result of a node, and not of the line of code


@dataclass(frozen=True)
class _Call:
    """What a node calls, without writing in place, and the nodes that are given as tensors, each once."""

    target: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    given: tuple[Any, ...]

    @property
    def key(self) -> tuple[Any, ...]:
        """The same for calls of which the same comes."""
        places = {node: f"%{place}" for place, node in enumerate(self.given)}
        args, kwargs = _mapped((self.args, self.kwargs), places.__getitem__)
        return self.target, repr(args), repr(kwargs), *(_kind(node.meta["val"]) for node in self.given)


@dataclass(frozen=True)
class _Made:
    """What came of a call: nodes in order, of what they are given and what of them are the results."""

    given: tuple[Any, ...]
    nodes: tuple[Any, ...]
    results: tuple[Any, ...]


def decomposed(program: Any, table: Mapping[Any, Any], decompose: Decompose) -> Any | None:
    """Return an `ExportedProgram` decomposed by `table`, and without writes in place; None where it has to be traced.

    That is where an operator has a graph of its own or a size that is not known, where it writes to what somebody else
    may see (an input, a buffer, part of another tensor), and where the program is `EDITED`. Tensors are shared with it.

    Parameters
    ----------
    program : torch.export.ExportedProgram
        Stays as it is.
    table : mapping
        Operator -> decomposition, as for its ``run_decompositions``.
    decompose : callable
        That method, of PyTorch's own.
    """
    calls = {node: _call(node) for node in program.graph.nodes if node.op not in ("placeholder", "output")}
    known = {node: call for node, call in calls.items() if call is not None}
    if len(known) < len(calls) or EDITED in program.graph_module.meta:
        return None
    rules = dict(table)
    replaced = {node: call.key for node, call in known.items() if call.target in rules or _is_replaced(call.target)}
    distinct = {key: (node, known[node]) for node, key in replaced.items()}
    try:
        made = _made(list(distinct.values()), lambda program: decompose(program, table)) if distinct else []
    except Exception:  # an operator cannot be decomposed: the error is to name where it stands
        return None
    if made is None:
        return None
    by_key = dict(zip(distinct, made, strict=True))
    return _put_together(program, known, {node: by_key[key] for node, key in replaced.items()})


def _made(distinct: Sequence[tuple[Any, _Call]], decompose: Callable[[Any], Any]) -> list[_Made] | None:
    """Return what comes of each call, None if that cannot be seen from the program that they are decomposed in."""
    whole, results = _program_of(distinct)
    after = decompose(whole)
    inputs = [node for node in after.graph.nodes if node.op == "placeholder"]
    (outputs,) = after.graph.output_node().args
    if len(inputs) != sum(len(call.given) for _, call in distinct) or len(outputs) != sum(results):
        return None  # with a constant, or a write
    nodes: dict[str, list[Any]] = {}
    for node in after.graph.nodes:
        if node.op in ("call_function", "get_attr"):
            nodes.setdefault(origin(node), []).append(node)
    found = []
    for place, ((_, call), count) in enumerate(zip(distinct, results, strict=True)):
        own, inputs = tuple(inputs[: len(call.given)]), inputs[len(call.given) :]
        ends, outputs = tuple(outputs[:count]), outputs[count:]
        found.append(_Made(own, tuple(nodes.pop(_name(place), ())), ends))
    return None if nodes or not all(map(_is_closed, found)) else found


def _is_closed(made: _Made) -> bool:
    """Return whether nothing but its own nodes and inputs goes into what came of a call."""
    known = {*made.given, *made.nodes}
    needed = {source for node in made.nodes for source in node.all_input_nodes} | set(made.results)
    return needed <= known and all(node.op == "call_function" for node in made.nodes)


def _name(place: int) -> str:
    return f"distinct_{place}"


def _program_of(distinct: Sequence[tuple[Any, _Call]]) -> tuple[Any, list[int]]:
    """Return a program of the calls, each with inputs of its own, and how many results each has."""
    import torch
    from torch.export.exported_program import ModuleCallEntry, ModuleCallSignature
    from torch.export.graph_signature import ExportGraphSignature, InputKind, InputSpec, OutputKind, OutputSpec
    from torch.export.graph_signature import TensorArgument as Tensor
    from torch.utils._pytree import tree_structure

    graph = torch.fx.Graph()
    inputs: list[Any] = []
    own: list[dict[Any, Any]] = []  # what a call is given -> the input in its place
    for _, call in distinct:
        own.append({node: graph.placeholder(f"given_{len(inputs) + place}") for place, node in enumerate(call.given)})
        for node, made in own[-1].items():
            made.meta["val"] = node.meta["val"]
        inputs += own[-1].values()
    ends, counts = [], []
    for place, (node, call) in enumerate(distinct):
        args, kwargs = _mapped((call.args, call.kwargs), own[place].__getitem__)
        made = graph.create_node("call_function", call.target, args, kwargs, _name(place))
        made.meta = {name: value for name, value in node.meta.items() if name != "from_node"}
        results = list(_results(graph, made))
        ends += results
        counts.append(len(results))
    graph.output(tuple(ends)).meta["val"] = tuple(end.meta["val"] for end in ends)
    values = tuple(node.meta["val"] for node in inputs)
    interface = ModuleCallSignature([], [], tree_structure((values, {})), tree_structure((0,) * len(ends)))
    signature = ExportGraphSignature(
        [InputSpec(InputKind.USER_INPUT, Tensor(node.name), None) for node in inputs],
        [OutputSpec(OutputKind.USER_OUTPUT, Tensor(end.name), None) for end in ends],
    )
    entries = [ModuleCallEntry("", interface)]
    whole = torch.export.ExportedProgram(torch.nn.Module(), graph, signature, {}, {}, entries, (values, {}))
    return whole, counts


def _results(graph: Any, node: Any) -> Iterator[Any]:
    """Yield the nodes of the tensors that a call returns."""
    import operator

    value = node.meta["val"]
    if value is None:
        return
    if not isinstance(value, list | tuple):
        yield node
        return
    for place, one in enumerate(value):
        element = graph.call_function(operator.getitem, (node, place))
        element.meta = {**node.meta, "val": one}
        yield element


def _put_together(program: Any, calls: Mapping[Any, _Call], replaced: Mapping[Any, _Made]) -> Any:
    """Return the program with what came of the calls in their places."""
    import torch
    from torch.fx.traceback import NodeSource

    graph, copies = torch.fx.Graph(), dict[Any, Any]()
    inputs = iter(program.graph_signature.input_specs)

    def create(node: Any, target: Any, args: Any, kwargs: Any, meta: Mapping[str, Any]) -> Any:
        packet = getattr(target, "overloadpacket", None)
        named = None if packet is None else graph._target_to_str(packet.__name__)  # as PyTorch would
        made = graph.create_node(node.op, target, args, kwargs, named, node.type)
        if node.op == "placeholder":
            made.name = next(inputs).arg.name  # a copy of a graph renames what is called as a builtin is, `input`
        made.meta = {**node.meta, "from_node": [NodeSource(node)], **meta}
        return made

    for node in program.graph.nodes:
        if is_element(node) and isinstance(copies[node.args[0]], list):
            copies[node] = copies[node.args[0]][node.args[1]]
            continue
        if leaves_alone(node):
            copies[node] = copies[node.args[0]]
            continue
        call = calls.get(node) or _Call(node.target, node.args, node.kwargs, ())
        if node in replaced:
            made = replaced[node]
            parts = dict(zip(made.given, (copies[one] for one in call.given), strict=True))
            for one in made.nodes:
                args, kwargs = _mapped((one.args, one.kwargs), parts.__getitem__)
                meta = {name: one.meta[name] for name in _KINDS if name in one.meta}
                parts[one] = create(node, one.target, args, kwargs, meta)
            results = [parts[one] for one in made.results]
            copies[node] = results if isinstance(node.meta["val"], list | tuple) else next(iter(results), None)
        else:
            args, kwargs = _mapped((call.args, call.kwargs), copies.__getitem__)
            # one of several results comes from the operator that has them
            meta = {"from_node": copies[node.args[0]].meta["from_node"]} if is_element(node) else {}
            copies[node] = create(node, call.target, args, kwargs, meta)
        if writes(node):
            copies |= dict.fromkeys(same_tensor(node), copies[node])
    graph.eliminate_dead_code()
    return _wrapped(
        program, graph, {node.name: copies[node].name for node in program.graph.output_node().all_input_nodes}
    )


def _wrapped(program: Any, graph: Any, renamed: Mapping[str, str]) -> Any:
    import torch

    signature, entries = copy.deepcopy(program.graph_signature), copy.deepcopy(program.module_call_graph)
    returned = [one.arg for one in signature.output_specs]
    for entry in entries:
        returned += entry.signature.outputs if entry.signature else []
    for one in {id(one): one for one in returned}.values():  # each once: one's new name may be another's old one
        one.name = renamed.get(one.name, one.name)
    made = torch.export.ExportedProgram(
        program.graph_module,
        graph,
        signature,
        dict(program.state_dict),
        program.range_constraints,
        entries,
        program.example_inputs,
        dict(program.constants),
    )
    made.graph_module.meta.update(program.graph_module.meta)
    return made


def _mapped(arguments: Any, by: Callable[[Any], Any]) -> Any:
    from torch.fx.node import map_arg

    return map_arg(arguments, by)


def _call(node: Any) -> _Call | None:
    """Return what a node calls, without writing in place; None where it has to be traced."""
    import torch

    given = tuple(dict.fromkeys(node.all_input_nodes))
    if not _is_plain(node.meta.get("val")):
        return None
    if is_element(node) or leaves_alone(node):
        return _Call(node.target, node.args, node.kwargs, given)
    if not isinstance(node.target, torch._ops.OpOverload) or any(_kind(one.meta["val"]) is None for one in given):
        return None
    target = without_writing(node) if writes(node) else node.target
    return None if target is None else _Call(target, node.args, node.kwargs, given)


def _is_plain(value: Any) -> bool:
    """Return whether a result is a tensor of known size, several of them, or nothing."""
    if isinstance(value, list | tuple):
        return all(_kind(one) is not None for one in value)
    return value is None or _kind(value) is not None


def _kind(value: Any) -> tuple[Any, ...] | None:
    """Return what decides what PyTorch makes of a call with this tensor; None if it is none of known size."""
    import torch

    if not isinstance(value, torch.Tensor) or not all(type(size) is int for size in (*value.shape, *value.stride())):
        return None
    return value.dtype, tuple(value.shape), value.stride(), str(value.device), value.requires_grad


@cache
def _is_replaced(target: Any) -> bool:
    """Return whether a trace calls something else in the place of an operator for which there is no rule."""
    import torch
    from torch._export.utils import _is_preservable_cia_op

    if not isinstance(target, torch._ops.OpOverload):
        return False
    if target.overloadpacket.__name__ in _REPLACED:
        return True
    return is_composite(target) and not _is_preservable_cia_op(target)
