"""The place of a fault: one operator of a copied program, what it is computed from, and how it is falsified."""

from random import Random
from typing import Any

import torch

from kokoro_nb.backends.called_operators import arguments_by_name
from kokoro_nb.torch_private import schema


class FaultSite:
    """One operator of an exported program without writes in place.

    What is put into the graph carries the provenance of the operator that it falsifies, so that the last node that any
    backend makes of that operator holds the false result.

    Parameters
    ----------
    program : torch.export.ExportedProgram
        The program; a copy, if anything is to be changed.
    node : torch.fx.Node
        Holds the result of the operator in it.
    seed : str
        Decides what a kind of fault leaves open: which channel, which element.
    """

    def __init__(self, program: Any, node: Any, seed: str = ""):
        self.program = program
        self.node = node
        self.random = Random(seed)
        self._last = node
        self._made: list[Any] = []

    @property
    def op(self) -> str:
        """The operator: ``aten.mul.Tensor``; ``getitem`` for one of several results."""
        return getattr(self.node.target, "__name__", "") if self.is_element else str(self.node.target)

    @property
    def is_element(self) -> bool:
        """Whether the node takes one of several results."""
        return getattr(self.node.target, "__name__", "") == "getitem"

    @property
    def value(self) -> Any:
        """Stand-in of the result: its shape and dtype."""
        return self.node.meta["val"]

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments by the names of the operator's schema, defaults included; none for one of several results."""
        return {} if self.is_element else arguments_by_name(self.node.target, self.node.args, self.node.kwargs)

    def fits(self) -> bool:
        """Return whether the operator, as it is called now, still gives a result of its shape and dtype."""
        if self.is_element:
            return True
        result = evaluated(self.node.target, self.node.args, self.node.kwargs)
        return bool(result.shape == self.value.shape and result.dtype == self.value.dtype)

    def emit(self, target: Any, *args: Any, ahead: bool = False, **kwargs: Any) -> Any:
        """Add a node that is made of this operator: after what was added last, or `ahead` of the operator itself."""
        graph = self.node.graph
        with graph.inserting_before(self.node) if ahead else graph.inserting_after(self._last):
            made = graph.call_function(target, args, kwargs)
        made.meta = _provenance(self.node)
        made.meta["val"] = evaluated(target, args, kwargs)
        self._made.append(made)
        if not ahead:
            self._last = made
        return made

    def give(self, result: Any, instead: Any = None) -> None:
        """Have everybody else read `result` in place of this operator's, or of the node `instead`."""
        before = self.node if instead is None else instead
        before.replace_all_uses_with(result, delete_user_cb=lambda user: user not in self._made)
        self.program.graph_signature.replace_all_uses(before.name, result.name)

    def call(self, /, **changes: Any) -> None:
        """Change arguments of the operator, by the names of its schema."""
        parameters = schema(self.node.target).arguments
        values = {**arguments_by_name(self.node.target, self.node.args, self.node.kwargs), **changes}
        positional = [p.name for p in parameters if not p.kwarg_only]
        defaults = {p.name: p.default_value for p in parameters if p.has_default_value()}
        while positional and positional[-1] in defaults and values[positional[-1]] == defaults[positional[-1]]:
            positional.pop()
        self.node.args = tuple(values[name] for name in positional)
        self.node.kwargs = {
            p.name: values[p.name] for p in parameters if p.kwarg_only and values[p.name] != p.default_value
        }


def evaluated(target: Any, args: Any, kwargs: Any) -> Any:
    """Return the stand-in of what an operator gives on nodes."""
    from torch.fx.node import map_arg

    values, named = map_arg((tuple(args), dict(kwargs)), lambda node: node.meta["val"])
    with torch.no_grad():
        return target(*values, **named)


def _provenance(node: Any) -> dict[str, Any]:
    from torch.fx.traceback import NodeSource, NodeSourceAction

    copied = {key: node.meta[key] for key in ("nn_module_stack", "stack_trace", "torch_fn") if key in node.meta}
    return {**copied, "from_node": [NodeSource(node, "fault", NodeSourceAction.CREATE)]}
