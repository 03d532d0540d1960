"""Operators written in other forms, a module for each family: what a runtime gets wrong, from what it gets right."""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch.fx.node import map_arg

from kokoro_nb.faults.kinds import FaultSite
from kokoro_nb.torch_private import decomposition, schema


@dataclass(frozen=True)
class OtherForm:
    """Another form of an operator, equal in exact arithmetic.

    Attributes
    ----------
    name, statement : str
        A short name, and what is computed in its place.
    function : callable
        Computes it of the operator's arguments by the names of its schema, of the operator itself, ``op``, and a
        stand-in of its result, ``result``; None where it does not apply.
    """

    name: str
    statement: str
    function: Callable[..., Any]

    def write(self, site: FaultSite) -> Any:
        """Add what the function computes behind the operator and return the node with its result, or None."""
        if site.is_element:
            return None
        return added(site, self.function, **site.arguments, op=site.node.target, result=site.value)


@cache
def _primitives() -> dict[Any, Any]:
    """Return what PyTorch's own primitives, which exporters do not know, are as operators."""
    packets = (getattr(torch.ops.prims, name) for name in dir(torch.ops.prims))
    known = {one.default: one.impl_aten for one in packets if hasattr(one, "impl_aten")}
    return known | {torch.ops.prims.convert_element_type.default: torch.Tensor.to}  # its own writes in place


def added(site: FaultSite, function: Callable[..., Any], **arguments: Any) -> Any:
    """Add what a function computes of arguments, nodes among them, and return the node with its result, or None."""
    from torch.fx.experimental.proxy_tensor import make_fx

    nodes: dict[Any, None] = {}
    map_arg(arguments, lambda node: nodes.setdefault(node))

    def of_tensors(*tensors: Any) -> Any:
        return function(**map_arg(arguments, dict(zip(nodes, tensors, strict=True)).__getitem__))

    mode = getattr(site.value, "fake_mode", None)
    with torch.no_grad(), nullcontext() if mode is None else mode:  # what is made of no tensor is a stand-in, too
        traced = make_fx(of_tensors, _primitives())(*(node.meta["val"] for node in nodes)).graph
    traced.eliminate_dead_code()
    targets = [node.target for node in traced.nodes if node.op == "call_function"]
    if function is _decomposed and targets == [site.node.target]:
        return None  # it is not taken apart
    places, made = iter(nodes), dict[Any, Any]()
    for node in traced.nodes:
        if node.op == "placeholder":
            made[node] = next(places)
        elif node.op == "call_function":
            args, kwargs = map_arg((node.args, node.kwargs), made.__getitem__)
            made[node] = site.emit(node.target, *args, **kwargs)
    (result,) = next(reversed(traced.nodes)).args
    return None if result is None else made[result]


def called(function: Callable[..., Any], op: Any, given: Mapping[str, Any]) -> Any:
    """Call a function of what an operator is given, as the schema of the operator has it."""
    parameters = schema(op).arguments
    return function(
        *(given[one.name] for one in parameters if not one.kwarg_only),
        **{one.name: given[one.name] for one in parameters if one.kwarg_only and given[one.name] is not None},
    )


QUADRATIC = ("cumsum", "cumprod")  # are taken apart into all pairs of their numbers


def _decomposed(op: Any, result: Any, **given: Any) -> Any:
    """Return what PyTorch takes an operator apart into; None where it does not."""
    known = None if str(op).split(".")[1] in QUADRATIC else decomposition(op)
    found: Any = None if known is None else called(known, op, given)
    return found if is_tensor(found) and (found.shape, found.dtype) == (result.shape, result.dtype) else None


DECOMPOSED = OtherForm("PyTorch's decomposition", "PyTorch's own decomposition stands in its place", _decomposed)
PARTS = OtherForm("parts in other forms", "it is taken apart, and its parts are written in other forms", _decomposed)


def is_tensor(value: Any) -> bool:
    """Return whether an argument of an operator is a tensor, and no number."""
    return hasattr(value, "is_floating_point")


def is_float(value: Any) -> bool:
    """Return whether an argument is a tensor of floats."""
    return is_tensor(value) and bool(value.is_floating_point())


def is_mask(value: Any) -> bool:
    """Return whether an argument is a tensor of truth values."""
    return str(getattr(value, "dtype", "")) == "torch.bool"


def filled(like: Any, value: Any, dtype: Any = None) -> Any:
    """Return a tensor of one number in the shape of another, by default in its dtype."""
    return torch.full_like(like, value, dtype=dtype)


def choose(condition: Any, x: Any, other: Any) -> Any:
    """Return `torch.where` of tensors alone: coremltools has none of a number."""
    x, other = (one if is_tensor(one) else filled(two, one) for one, two in ((x, other), (other, x)))
    return x.where(condition, other)


def axes_of(x: Any, given: Any) -> list[int]:
    """Return the axes that a reduction names: a number, several, or all where it names none."""
    named = [given] if isinstance(given, int) else list(given or range(x.ndim))
    return sorted(axis % max(x.ndim, 1) for axis in named)[: x.ndim]  # a number has none


def with_last(x: Any, axes: list[int]) -> Any:
    """Return a tensor with several axes as one, the last."""
    rest = [axis for axis in range(x.ndim) if axis not in axes]
    return x.permute((*rest, *axes)).flatten(len(rest))
