"""Kinds of faults that tests alone plant: of what an operator reads, of its arguments, of its weights."""

import operator
from collections.abc import Callable
from typing import Any

import torch

from kokoro_nb.backends.called_operators import is_element
from kokoro_nb.faults.planting import ATEN, KINDS, FaultKind, FaultSite


def is_one_of_equals(site: FaultSite) -> bool:
    """Return whether the result is the first of several of one shape."""
    values = site.node.args[0].meta["val"] if is_element(site.node) and site.node.args[1] == 0 else ()
    return len(values) > 1 and len({(value.shape, value.dtype) for value in values}) == 1


def swapped_results(site: FaultSite) -> None:
    """Give the results of one operator in the opposite order."""
    several = site.node.args[0]
    elements = {user.args[1]: user for user in several.users}
    count, axis = len(several.meta["val"]), min(1, site.value.ndim - 1)
    parts = [elements.get(place) or site.emit(operator.getitem, several, place) for place in range(count)]
    order = {node: place for place, node in enumerate(site.node.graph.nodes)}
    site._last = max((site._last, *parts), key=order.__getitem__)
    joined = site.emit(ATEN.cat.default, parts[::-1], axis)
    again = site.emit(ATEN.split.Tensor, joined, site.value.shape[axis], axis)
    for place, part in elements.items():
        other = FaultSite(site.program, part)
        other.made = site.made
        other.give(site.emit(operator.getitem, again, place))


def ahead(site: FaultSite, target: Any, *args: Any) -> Any:
    """Add a node ahead of the operator itself, which is to read it."""
    last, made = site._last, site.emit(target, *args)
    site.node.prepend(made)
    site._last = last
    return made


def overflow(site: FaultSite) -> None:
    """Add 100 to the argument of an exponential, beyond the 88.7 that float32 can hold."""
    site.call(self=ahead(site, ATEN.add.Tensor, site.arguments["self"], 100.0))


REDUCTIONS = ("aten.mean.dim", "aten.sum.dim_IntList", "aten.amax.default", "aten.amin.default")


def is_reduction(site: FaultSite) -> bool:
    """Return whether the operator reduces an axis of two elements or more."""
    return site.op in REDUCTIONS and site.arguments["self"].meta["val"].shape[_reduced(site)] > 1


def short_reduction(site: FaultSite) -> None:
    """Leave out the last element of what is reduced."""
    source, axis = site.arguments["self"], _reduced(site)
    size = source.meta["val"].shape[axis]
    site.call(self=ahead(site, ATEN.slice.Tensor, source, axis, 0, size - 1))


def is_dilatable(site: FaultSite) -> bool:
    """Return whether the operator is a convolution along one axis whose dilation can grow at the same length."""
    if site.op != "aten.conv1d.default":
        return False
    return site.arguments["weight"].meta["val"].shape[-1] % 2 == 1 < site.arguments["weight"].meta["val"].shape[-1]


def wrong_dilation(site: FaultSite) -> None:
    """Have a convolution skip one sample more between its taps, at the same length."""
    reach = site.arguments["weight"].meta["val"].shape[-1] // 2
    (padding,), (dilation,) = site.arguments["padding"], site.arguments["dilation"]
    site.call(padding=[padding + reach], dilation=[dilation + 1])


def _reduced(site: FaultSite) -> int:
    axes = site.arguments["dim"]
    return list(axes)[-1] % site.arguments["self"].meta["val"].ndim if axes else 0


def is_addition(site: FaultSite) -> bool:
    """Return whether the operator adds two tensors, of which the first has the shape of the sum."""
    operands = _operands(site)
    return (
        site.op == "aten.add.Tensor"
        and _are_two(operands)
        and operands["self"].meta["val"].shape == site.value.shape
        and site.value.is_floating_point()
    )


def lost_operand(site: FaultSite) -> None:
    """Leave out the second term of a sum: multiply it by 1e-30."""
    site.call(other=ahead(site, ATEN.mul.Tensor, site.arguments["other"], 1e-30))


def _operands(site: FaultSite) -> dict[str, Any]:
    """Return the arguments that are tensors."""
    return {name: value for name, value in site.arguments.items() if hasattr(value, "meta") and name != "condition"}


def _are_two(operands: dict[str, Any]) -> bool:
    return len(operands) == 2 and len({id(operand) for operand in operands.values()}) == 2


def stored(site: FaultSite) -> str | None:
    """Return the name of the parameter that is the weight, if nothing else reads it."""
    node, names = site.arguments.get("weight"), site.program.graph_signature.inputs_to_parameters
    name = names.get(getattr(node, "name", None))
    return name if name is not None and len(node.users) == 1 and list(names.values()).count(name) == 1 else None


def constant(site: FaultSite) -> Any:
    """Return the parameter that `stored` names."""
    return site.program.state_dict[stored(site)].detach()


def store(site: FaultSite, tensor: Any) -> None:
    """Put another tensor in the place of the one that `stored` names."""
    grad = site.program.state_dict[stored(site)].requires_grad
    site.program.state_dict[stored(site)] = torch.nn.Parameter(tensor, grad)


def has_weight(site: FaultSite) -> bool:
    """Return whether the operator alone reads a float weight."""
    return stored(site) is not None and constant(site).is_floating_point()


def perturbed_weight(site: FaultSite) -> None:
    """Add the weight's largest absolute value to one of its elements."""
    weight = constant(site).clone()
    weight.view(-1)[site.random.randrange(weight.numel())] += weight.abs().max()
    store(site, weight)


def _is(*operators: str) -> Callable[[FaultSite], bool]:
    return lambda site: site.op in operators


OTHERS = (
    FaultKind(swapped_results, is_one_of_equals),
    FaultKind(overflow, _is("aten.exp.default")),
    FaultKind(lost_operand, is_addition),
    FaultKind(short_reduction, is_reduction),
    FaultKind(wrong_dilation, is_dilatable),
    FaultKind(perturbed_weight, has_weight),
)
KINDS.update({kind.apply.__name__: kind for kind in OTHERS})
