"""An exported program as a specification: its operators by name, what each computes, and whose result a node is.

Every backend takes an exported program apart in its own way, and PyTorch notes on each node which one it was made of
(``meta["from_node"]``). The last node made of an operator is the one that holds its result, so the result is known by
where it comes from and never by what it is called.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePath
from typing import Any

import numpy as np

from kokoro_nb.backends.called_operators import calling_module, default_dtype, is_element, laid_out, picks, user_results
from kokoro_nb.backends.signature import array_of, as_tensor, dtype_name, sizes
from kokoro_nb.errors import InputError
from kokoro_nb.torch_private import schema
from kokoro_nb.traces.trace import CONSTANT, INPUT, Given, Hook, Operator

HELD = ("placeholder", "get_attr")  # kinds of nodes that compute nothing
_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
Observer = Callable[[str, Any], Any]
Source = tuple[str, int | None]  # name of a node of the exported program, and which of its results


@dataclass(frozen=True, eq=False)
class Specification:
    """An exported program without writes in place, whose operators have names.

    Attributes
    ----------
    program : torch.export.ExportedProgram
        In PyTorch's own operators, as the model calls them, made functional.
    inputs, outputs : tuple of str
        Names, in order.
    named_by : Specification or None
        Of the program that this one was changed from, by whose names its operators go; None for a program of its own.
    """

    program: Any
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    named_by: "Specification | None" = None

    @cached_property
    def operators(self) -> tuple[Operator, ...]:
        """Every operator with one tensor as its result, in the order of execution."""
        if self.named_by is not None:
            return self.named_by.operators
        return tuple(self._operator(node) for node in self._nodes.values())

    @property
    def results_of_outputs(self) -> dict[str, Any]:
        """Name of each output -> the node that gives it."""
        return dict(zip(self.outputs, user_results(self.program), strict=True))

    @property
    def output_dtypes(self) -> dict[str, str]:
        """Name of each output -> its dtype."""
        return {name: dtype_name(node.meta["val"].dtype) for name, node in self.results_of_outputs.items()}

    @property
    def givers(self) -> dict[str, str]:
        """Name of each output -> the operator that gives it; an empty text if none does."""
        return {name: self.source_of(node) or "" for name, node in self.results_of_outputs.items()}

    @cached_property
    def state(self) -> dict[str, str | None]:
        """Name of each buffer or input that the program writes to -> the operator that computes its new value."""
        nodes = {node.name: node for node in self.program.graph.nodes}
        signature = self.program.graph_signature
        written = signature.buffers_to_mutate | signature.user_inputs_to_mutate
        return {name: self.source_of(nodes[node]) for node, name in written.items()}

    def source_of(self, node: Any) -> str | None:
        """Return the name of the operator that a node of a program made from the exported one was made of, or None."""
        if self.named_by is not None:
            return self.named_by.source_of(node)
        if node in self._names:
            return self._names[node]
        place, several = _source(node)
        if several is not None and self._counts.get(place, 0) != len(node.args[0].meta["val"]):
            several = None  # what an operator of several results was taken apart into may have several of its own
        made = self._sources.get((place, several)) or self._sources.get((place, None)) or {}
        return made.get(str(node.target)) or next(reversed(made.values()), None)

    def sources_of(self, node: Any, count: int, holders: Mapping[str, Any] | None = None) -> list[str | None]:
        """Return the names of the operators whose results a node's are, None for a result that is no operator's.

        Parameters
        ----------
        node : torch.fx.Node
            Of a program made from the exported one.
        count : int
            How many results a backend has in its place.
        holders : mapping, optional
            What `results` gives for that program: then what another node goes on to change is no operator's result.
        """
        if _kind(node) is not None:
            own = [node, *[None] * (count - 1)]
        else:
            elements = {user.args[1]: user for user in node.users if is_element(user)}
            own = [elements.get(place) for place in range(count)]
        names = [None if one is None else self.source_of(one) for one in own]
        if holders is None:
            return names
        return [name if holders.get(name or "") is one else None for name, one in zip(names, own, strict=True)]

    def results(self, nodes: Iterable[Any]) -> dict[str, Any]:
        """Return the node that holds each operator's result, among the nodes of a program made from the exported one.

        Parameters
        ----------
        nodes : iterable of torch.fx.Node
            In the order of execution.

        Returns
        -------
        dict
            Name of the operator -> node. Where no node has its shape and dtype, the operator is not in it.
        """
        kinds = {operator.name: (operator.shape, operator.dtype) for operator in self.operators}
        found = {}
        for node in nodes:
            name = self.source_of(node)
            if name is not None and _kind(node) == kinds[name]:
                found[name] = node
        return found

    def run(self, inputs: Given, observe: Observer | None = None, double: bool = False) -> dict[str, np.ndarray]:
        """Run the program operator by operator in PyTorch, each tensor let go after its last use.

        Parameters
        ----------
        inputs : mapping
            Array of each input by its name.
        observe : callable, optional
            Called with the name of each operator and its result, a torch tensor; what it returns, if not None, is
            taken in place of the result.
        double : bool
            Compute in float64, constants and tensors that the program makes included.
        """
        import torch

        nodes, names = self.program.graph.nodes, self._result_names
        values = {node: self._held(node, inputs, double) for node in nodes if node.op in HELD}
        last = {node: node for node in nodes} | {source: node for node in nodes for source in node.all_input_nodes}
        with torch.no_grad(), default_dtype(double):
            for node in nodes:
                if node.op != "call_function":
                    continue
                values[node] = result = _call(node, values, double)
                if observe is not None and node in names:
                    instead = observe(names[node], result)
                    values[node] = result if instead is None else instead
                for used in (node, *node.all_input_nodes):
                    if last[used] is node:
                        del values[used]
            return {name: np.array(array_of(values[node])) for name, node in self.results_of_outputs.items()}

    def recompute(self, name: str, inputs: Given, captured: Given, double: bool = True, substitute: Hook = None) -> Any:
        """Compute one operator on its inputs; of a changed program, as the one that names it would.

        Parameters
        ----------
        name : str
            The operator.
        inputs : mapping
            Array of each input of the program by its name.
        captured : mapping
            Array of each captured operator by its name. One that is not among them is computed in the same way first.
        double : bool
            Compute in float64; else as the program says.
        substitute : callable, optional
            Called with the target, the arguments and the result of every operator that is computed, the requested one
            last; what it returns takes the place of the result.

        Returns
        -------
        torch.Tensor
        """
        import torch

        if self.named_by is not None:
            return self.named_by.recompute(name, inputs, captured, double, substitute)
        if name not in self._nodes:
            raise InputError(f"The program has no operator '{name}'; see its `operators`.")
        target = self._nodes[name]
        values: dict[Any, Any] = {}
        pending = [target]
        with torch.no_grad(), default_dtype(double):
            while pending:
                node = pending[-1]
                if node in values:
                    pending.pop()
                elif node.op in HELD:
                    values[node] = self._held(node, inputs, double)
                elif node is not target and self._names.get(node) in captured:
                    known, dtype = torch.tensor(captured[self._names[node]]), node.meta["val"].dtype
                    # a backend may keep in float16 what the program computes in float32, and in int32 what in int64
                    known = _widened(known if double and dtype.is_floating_point else known.to(dtype), double)
                    values[node] = laid_out(known, node.meta["val"].stride())
                elif waiting := [source for source in node.all_input_nodes if source not in values]:
                    pending += waiting
                else:
                    values[node] = _call(node, values, double, substitute)
        return values[target]

    def source_line(self, name: str) -> str:
        """Return file and line of the model's code that calls the operator `name`; empty where PyTorch notes none."""
        node = (self.named_by or self)._nodes.get(name)
        return "" if node is None else _calling_line(node)

    def node_name(self, name: str) -> str:
        """Return the name of the node that computes the operator `name`."""
        return str((self.named_by or self)._nodes[name].name)

    def numbers(self, name: str) -> dict[str, Any]:
        """Return the arguments of the operator `name` that are no tensors, by name; those left out are missing."""
        node = self._nodes.get(name) if self.named_by is None else None
        node = node.args[0] if node is not None and is_element(node) else node
        if node is None or schema(node.target) is None:
            return {}
        given = dict(zip((one.name for one in schema(node.target).arguments), node.args, strict=False)) | node.kwargs
        return {key: value for key, value in given.items() if _is_plain(value)}

    @cached_property
    def _nodes(self) -> dict[str, Any]:
        """Name -> node, in the order of execution."""
        counts: dict[str, int] = {}
        found = {}
        for node in self.program.graph.nodes:
            if node.op != "call_function" or _kind(node) is None:
                continue
            stem = f"{calling_module(node)}:{_short(node)}"
            counts[stem] = counts.get(stem, 0) + 1
            found[stem if counts[stem] == 1 else f"{stem}#{counts[stem]}"] = node
        return found

    @cached_property
    def _names(self) -> dict[Any, str]:
        return {node: name for name, node in self._nodes.items()}

    @cached_property
    def _result_names(self) -> dict[Any, str]:
        """Node that holds the result of an operator -> name of the operator."""
        return {node: name for name, node in self.results(self.program.graph.nodes).items()}

    @cached_property
    def _sources(self) -> dict[Source, dict[str, str]]:
        """What operators were made of -> what each calls, and its name: a write to a part becomes several."""
        found: dict[Source, dict[str, str]] = {}
        for name, node in self._nodes.items():
            made = found.setdefault(_source(node), {})
            made.pop(str(node.target), None)  # the last comes last
            made[str(node.target)] = name
        return found

    @cached_property
    def _counts(self) -> dict[str, int]:
        """What an operator of several results was made of -> how many it has."""
        several = (node.args[0] for node in self._nodes.values() if is_element(node))
        return {_origin(node): len(node.meta["val"]) for node in several}

    @cached_property
    def _constants(self) -> dict[Any, str]:
        """Placeholder node -> name of the parameter, buffer or constant that it stands for."""
        signature = self.program.graph_signature
        names = signature.inputs_to_parameters | signature.inputs_to_buffers
        names |= signature.inputs_to_lifted_tensor_constants
        return {node: names[node.name] for node in self.program.graph.nodes if node.name in names}

    @cached_property
    def _inputs(self) -> dict[Any, str]:
        nodes = [node for node in self.program.graph.nodes if node.op == "placeholder" and node not in self._constants]
        return dict(zip(nodes, self.inputs, strict=True))

    def _held(self, node: Any, inputs: Given, double: bool) -> Any:
        """Return an input, a constant, or the graph of a branch of `torch.cond`."""
        import torch

        if node.op == "get_attr":
            return getattr(self.program.graph_module, node.target)
        if node in self._constants:
            return _widened(self.stored(self._constants[node]), double)
        value = inputs[self._inputs[node]]
        if not isinstance(value, torch.Tensor):
            value = as_tensor(value, dtype_name(node.meta["val"].dtype))
        return _widened(value, double)

    def stored(self, name: str) -> Any:
        """Return a parameter, a buffer or a constant of the program by its name."""
        stored = self.program.state_dict.get(name)
        return (self.program.constants[name] if stored is None else stored).detach()

    def _operator(self, node: Any) -> Operator:
        # one of several results is computed from what all of them are computed from
        sources = (node.args[0] if is_element(node) else node).all_input_nodes
        feeding = tuple(dict.fromkeys(self._labels(sources)))
        kind = _kind(node)
        assert kind is not None
        return Operator(self._names[node], _target(node), calling_module(node), feeding, *kind)

    def _labels(self, nodes: Iterable[Any]) -> Iterator[str]:
        for node in nodes:
            if node in self._constants:
                yield f"{CONSTANT}{self._constants[node]}"
            elif node in self._inputs:
                yield f"{INPUT}{self._inputs[node]}"
            elif node in self._names:
                yield self._names[node]
            else:  # a number that is read out of a tensor has no name
                yield from self._labels(node.all_input_nodes)


def _origin(node: Any) -> str:
    """Return the name of the node of the exported program that a node was made of: its own, if of none."""
    chain, name = node.meta.get("from_node"), node.name
    while chain:
        name, chain = chain[-1].name, chain[-1].from_node
    return str(name)


def _calling_line(node: Any) -> str:
    """Return the innermost line outside PyTorch that a node comes from, ``vocoder.py:12``; empty if none is noted."""
    called = node.args[0] if is_element(node) and not node.meta.get("stack_trace") else node
    frames = _FRAME.findall(called.meta.get("stack_trace") or "")
    own = [one for one in frames if "/torch/" not in one[0].replace("\\", "/") and not one[0].startswith("<")]
    return f"{PurePath(own[-1][0]).name}:{own[-1][1]}" if own else ""


def _source(node: Any) -> Source:
    """Return the node of the exported program that a node was made of, and the place of the result that it takes."""
    return _origin(node), node.args[1] if is_element(node) else None


def _kind(node: Any) -> tuple[tuple[int, ...], str] | None:
    """Return shape and dtype of a node's one tensor; None if it has another kind of result."""
    value = node.meta.get("val")
    return (sizes(value.shape), dtype_name(value.dtype)) if hasattr(value, "stride") else None


def _is_plain(value: Any) -> bool:
    """Return whether an argument is a number, a text, or a list of them."""
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return isinstance(value, bool | int | float | str)


def _target(node: Any) -> str:
    return f"{node.args[0].target}[{node.args[1]}]" if is_element(node) else str(node.target)


def _short(node: Any) -> str:
    """Return the operator without its namespace and overload: ``mean`` for ``aten.mean.dim``."""
    called = node.args[0] if is_element(node) else node
    return str(called.target).split(".")[1] if "." in str(called.target) else str(called.target)


def _call(node: Any, values: Mapping[Any, Any], double: bool, substitute: Hook = None) -> Any:
    import torch
    from torch.fx.node import map_aggregate, map_arg

    args, kwargs = map_arg((node.args, node.kwargs), values.__getitem__)
    target = node.target
    if double:
        if str(node.target).startswith("aten._assert_tensor_metadata"):  # of a dtype, which is another one in float64
            return None
        wide = {torch.float32: torch.float64, torch.complex64: torch.complex128}
        given = args, kwargs
        args, kwargs = map_aggregate(given, lambda one: wide.get(one, one) if isinstance(one, torch.dtype) else one)
        kinds = filter(None, map(_kind, node.all_input_nodes))
        target = picks(target, next(kinds, ((), ""))[1])
        if str(target) == "aten.view.default":  # an operator may lay its result out in another way in float64
            target = torch.ops.aten.reshape.default
        if str(target).startswith("quantized_decomposed."):  # whose operators take float32 alone
            args = [one.float() if getattr(one, "dtype", None) == torch.float64 else one for one in args]
    result = _widened(target(*args, **kwargs), double)  # a cast rounds, and what goes on from it is float64
    return result if substitute is None else substitute(node.target, args, kwargs, result)


def _widened(tensor: Any, double: bool) -> Any:
    """Return a tensor of floats or complex numbers in float64, if `double`; anything else as it is."""
    if not double or not hasattr(tensor, "is_complex"):
        return tensor
    return tensor.double() if tensor.is_floating_point() else tensor.cdouble() if tensor.is_complex() else tensor
