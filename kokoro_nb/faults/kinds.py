"""The place of a fault, one operator of a copied program, and the kinds: a name, what it does, and its operators."""

from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

import torch
from torch.fx.node import map_arg

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

    Attributes
    ----------
    made : list of torch.fx.Node
        What was added.
    """

    def __init__(self, program: Any, node: Any, seed: str = ""):
        self.program = program
        self.node = node
        self.random = Random(seed)
        self._last = node
        self.made: list[Any] = []

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
        self.made.append(made)
        if not ahead:
            self._last = made
        return made

    def give(self, result: Any, instead: Any = None) -> None:
        """Have everybody else read `result` in place of this operator's, or of the node `instead`."""
        before = self.node if instead is None else instead
        before.replace_all_uses_with(result, delete_user_cb=lambda user: user not in self.made)
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
    values, named = map_arg((tuple(args), dict(kwargs)), lambda node: node.meta["val"])
    with torch.no_grad():
        return target(*values, **named)


def _provenance(node: Any) -> dict[str, Any]:
    from torch.fx.traceback import NodeSource, NodeSourceAction

    copied = {key: node.meta[key] for key in ("nn_module_stack", "stack_trace", "torch_fn") if key in node.meta}
    return {**copied, "from_node": [NodeSource(node, "fault", NodeSourceAction.CREATE)]}


ATEN = torch.ops.aten
SMALL = 1e-2  # a number up to here that is added to a tensor is taken for an epsilon


class FaultKind(NamedTuple):
    """One kind of fault.

    Attributes
    ----------
    apply : callable
        Plants it at a `FaultSite`; its name is the kind's, and its docstring says what it does.
    fits : callable
        Returns whether it can be planted at a `FaultSite`.
    """

    apply: Callable[[FaultSite], None]
    fits: Callable[[FaultSite], bool]


def is_float(site: FaultSite) -> bool:
    """Return whether the result is one float tensor of one axis or more, and no one of several."""
    return not site.is_element and site.value.is_floating_point() and site.value.ndim > 0 and site.value.numel() > 0


def nan_channel(site: FaultSite) -> None:
    """Make one channel NaN: the square root of something below zero."""

    def root(channel: Any) -> Any:
        opposite = site.emit(ATEN.neg.default, site.emit(ATEN.mul.Tensor, channel, channel))
        return site.emit(ATEN.sqrt.default, site.emit(ATEN.sub.Tensor, opposite, 1.0))

    in_channel(site, root)


def zeroed_channel(site: FaultSite) -> None:
    """Make one channel zero."""
    in_channel(site, lambda channel: site.emit(ATEN.mul.Tensor, channel, 0.0))


def in_channel(site: FaultSite, falsified: Callable[[Any], Any]) -> None:
    """Put what `falsified` makes of one channel, which the seed chooses, in its place."""
    axis = min(1, site.value.ndim - 1)
    place = site.random.randrange(site.value.shape[axis])
    channel = site.emit(ATEN.select.int, site.node, axis, place)
    site.give(site.emit(ATEN.select_scatter.default, site.node, falsified(channel), axis, place))


def sign_flip(site: FaultSite) -> None:
    """Change the sign."""
    site.give(site.emit(ATEN.neg.default, site.node))


def scaled(site: FaultSite) -> None:
    """Multiply by 1.01."""
    site.give(site.emit(ATEN.mul.Tensor, site.node, 1.01))


def half_rounding(site: FaultSite) -> None:
    """Round to float16 and back."""
    half = site.emit(ATEN._to_copy.default, site.node, dtype=torch.float16)
    site.give(site.emit(ATEN._to_copy.default, half, dtype=site.value.dtype))


def wrong_epsilon(site: FaultSite) -> None:
    """Multiply the epsilon by 1000."""
    name = "other" if adds_epsilon(site) else "eps"
    site.call(**{name: 1000 * site.arguments[name]})


def adds_epsilon(site: FaultSite) -> bool:
    """Return whether the operator adds a small number to a float tensor."""
    number = site.arguments.get("other")
    if site.op != "aten.add.Tensor" or isinstance(number, bool) or not isinstance(number, int | float):
        return False
    return site.value.is_floating_point() and 0 < number <= SMALL


def dropped_bias(site: FaultSite) -> None:
    """Leave the bias out."""
    site.call(bias=None)


_OWN = (
    *(FaultKind(one, is_float) for one in (nan_channel, zeroed_channel, sign_flip, scaled, half_rounding)),
    FaultKind(wrong_epsilon, lambda site: adds_epsilon(site) or isinstance(site.arguments.get("eps"), float)),
    FaultKind(dropped_bias, lambda site: "weight" in site.arguments and site.arguments.get("bias") is not None),
)

KINDS: dict[str, FaultKind] = {kind.apply.__name__: kind for kind in _OWN}
"""Kinds by name; a caller adds kinds of its own."""
