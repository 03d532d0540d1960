"""Operators written in other forms, and those of each element: arithmetic, functions, bounds and extremes.

So what a runtime gets wrong comes from what it gets right.
"""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cache, partial
from math import inf, pi
from typing import Any

import torch
from torch.fx.node import map_arg

from kokoro_nb.backends.called_operators import is_element
from kokoro_nb.faults.planting import FaultSite
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
        if is_element(site.node):
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


def choose(condition: Any, x: Any, other: Any) -> Any:
    """Return `torch.where` of tensors alone: coremltools has none of a number."""
    x, other = (one if is_tensor(one) else torch.full_like(two, one) for one, two in ((x, other), (other, x)))
    return x.where(condition, other)


def axes_of(x: Any, given: Any) -> list[int]:
    """Return the axes that a reduction names: a number, several, or all where it names none."""
    named = [given] if isinstance(given, int) else list(given or range(x.ndim))
    return sorted(axis % max(x.ndim, 1) for axis in named)[: x.ndim]  # a number has none


def with_last(x: Any, axes: list[int]) -> Any:
    """Return a tensor with several axes as one, the last."""
    rest = [axis for axis in range(x.ndim) if axis not in axes]
    return x.permute((*rest, *axes)).flatten(len(rest))


def _masks(self: Any, other: Any, op: Any, **_: Any) -> Any:
    if not is_mask(self) or not is_mask(other):
        return None
    return self.logical_or(other) if "add" in str(op) or "__or__" in str(op) else self.logical_and(other)


def _remainder(self: Any, other: Any, result: Any, **_: Any) -> Any:
    if not is_float(result):
        return None  # the quotient of whole numbers is none
    return self - self.floor() if not is_tensor(other) and other == 1 else self - (self / other).floor() * other


def _by_fmod(self: Any, other: Any, **_: Any) -> Any:
    if not is_tensor(self):
        return None
    rest = self.fmod(other)
    return choose(_apart(rest, other), rest + other, rest)


def _apart(rest: Any, divisor: Any) -> Any:
    """Return whether a remainder is above and the divisor below 0, or the other way round."""
    if not is_tensor(divisor):
        return rest < 0 if divisor > 0 else rest > 0
    return ((rest < 0).logical_and(divisor > 0)).logical_or((rest > 0).logical_and(divisor < 0))


def _quotient(self: Any, other: Any, result: Any, rounding_mode: str | None = None, **_: Any) -> Any:
    """Return a quotient that is rounded down or towards 0: what fmod leaves over is taken away first."""
    if rounding_mode is None or not is_float(result):
        return None
    if not is_tensor(other) and other == 1:
        return self.floor() if rounding_mode == "floor" else self.trunc()
    rest = self.fmod(other)
    whole = ((self - rest) / other).round()
    if rounding_mode == "trunc":
        return whole
    floored = choose(_apart(rest, other), whole - 1.0, whole)
    return choose(other == 0, self / other, floored) if is_tensor(other) else floored


def _whole_quotient(self: Any, other: Any, result: Any, rounding_mode: str | None = None, **_: Any) -> Any:
    if rounding_mode is None or is_float(result):
        return None
    x = self.to(result.dtype)
    return x.div(other.to(x.dtype) if is_tensor(other) else torch.full_like(x, other), rounding_mode=rounding_mode)


def _not_equal(self: Any, other: Any, **_: Any) -> Any:
    if not is_float(self) or self is other:
        return self.isnan() if is_float(self) else None
    found = (self < other).logical_or(self > other).logical_or(self.isnan())
    return found.logical_or(other.isnan()) if is_float(other) else found


def _itself(self: Any, other: Any, **_: Any) -> Any:
    return self.isnan().logical_not() if self is other and is_float(self) else None


def _by_zero(self: Any, other: Any, **_: Any) -> Any:
    return None if is_tensor(other) or other != 0 or not is_float(self) else self - self


_MASKS = OtherForm("masks by logic", "logical_or and logical_and stand for the sum and the product of masks", _masks)
_FIRST = OtherForm("the remainder first", "what fmod leaves over is taken away, then divided", _quotient)
_TENSOR = OtherForm("a divisor of the same dtype", "the divisor is a tensor of the result's dtype", _whole_quotient)
_ITSELF = OtherForm("isnan asked", "a value is compared with itself, which NaN fails", _itself)
_ZERO = OtherForm("x - x", "0 is written as x - x, which is NaN where x is not finite", _by_zero)
_FLOOR = OtherForm("x - floor(x)", "the remainder is x less the whole multiples of the divisor", _remainder)
_FMOD = OtherForm("fmod", "the remainder is that of fmod, with the divisor added where the signs differ", _by_fmod)
_SIDES = OtherForm("less or greater", "unequal is written as less, greater or not a number", _not_equal)
_ROUNDED = (_FIRST, _TENSOR)


def _atan2(self: Any, other: Any, **_: Any) -> Any:
    larger = self.abs().maximum(other.abs())
    larger = choose(larger == 0, 1, larger)
    angle = (self / larger).atan2(other / larger)
    level = self == 0
    return choose(level.logical_and(other >= 0), 0, choose(level.logical_and(other < 0), pi, angle))


def _one(x: Any) -> Any:
    return x - x + 1.0


def _log_of_more(x: Any) -> Any:
    """Return log(1 + x) with the rounding of 1 + x divided out; where 1 + x is 1 it is x (Kahan)."""
    more = x + 1.0
    return choose(x.abs() < 0.5, choose(more == 1, x, more.log() * x / (more - 1.0)), more.log())


def _softplus(self: Any, beta: float, threshold: float, **_: Any) -> Any:
    scaled = self * beta
    return choose(scaled > threshold, self, _log_of_more(scaled.exp()) / beta)


def _expm1(self: Any, **_: Any) -> Any:
    power = self.exp()
    return choose(self.abs() < 0.5, choose(power == 1, self, (power - 1.0) * self / power.log()), power - 1.0)


_KAHAN = "the rounding of 1 + x is divided out of its logarithm"
_ATAN2 = "both are divided by the larger; pi is put in where y is 0 and x below it, 0 where x is not"
_ROOT = "1 is a tensor that is divided by the root of x"
_BELOW = "finite is written as smaller than infinity in size"


def _nan_kept(op: Any, result: Any, **given: Any) -> Any:
    floats = [one for one in given.values() if is_float(one)]
    found = op(*given.values()) if floats else None
    for one in floats:
        found = choose(one.isnan(), one, found)
    return found


def _nan_of_all(self: Any, op: Any, **_: Any) -> Any:
    return _with_nan(op(self), self, None, keep=False) if str(op).endswith(".default") else None


def _with_nan(found: Any, x: Any, axes: Any, keep: bool) -> Any:
    """Return a reduction with the sum of all NaN that went into it added: 0 where there are none."""
    return found + choose(x.isnan(), x, 0).sum(axes, keep) if is_float(x) else found


def largest(x: Any, axes: list[int], keep: bool) -> Any:
    """Return the maximum over axes, taken over one."""
    kept = [1 if axis in axes else size for axis, size in enumerate(x.shape) if keep or axis not in axes]
    return _with_nan(with_last(x, axes).max(-1).values.reshape(kept), x, axes, keep)


def _amax(self: Any, dim: Any, keepdim: bool, op: Any, **_: Any) -> Any:
    axes = axes_of(self, dim)
    return largest(self, axes, keepdim) if "amax" in str(op) else -largest(-self, axes, keepdim)


_KEPT = OtherForm("NaN kept", "NaN is put back where it went in", _nan_kept)
_AMONG = OtherForm("NaN kept", "NaN is added where there is one among the numbers", _nan_of_all)
_ONE_AXIS = OtherForm("max over one axis", "the axes are one, of which max.dim gives the largest", _amax)
ELEMENTWISE: dict[str, tuple[OtherForm, ...]] = {
    **dict.fromkeys(("sub", "rsub", "lt", "gt", "multiply", "divide", "subtract"), (DECOMPOSED,)),
    "add": (_MASKS, DECOMPOSED),
    "mul": (_MASKS, _ZERO, DECOMPOSED),
    **dict.fromkeys(("__and__", "__or__"), (_MASKS,)),
    "div": (*_ROUNDED, DECOMPOSED),
    "floor_divide": tuple(replace(one, function=partial(one.function, rounding_mode="floor")) for one in _ROUNDED),
    "remainder": (_FLOOR, _FMOD),
    "ne": (_SIDES, DECOMPOSED),
    **dict.fromkeys(("eq", "le", "ge"), (_ITSELF, DECOMPOSED)),
    **dict.fromkeys(("clamp", "clamp_min", "clamp_max", "relu"), (_KEPT, DECOMPOSED)),
    **dict.fromkeys(("relu6", "hardtanh", "hardsigmoid", "maximum", "minimum"), (_KEPT,)),
    **dict.fromkeys(("gelu", "elu", "selu", "celu", "new_ones"), (DECOMPOSED,)),
    **dict.fromkeys(("max", "min"), (_AMONG,)),
    **dict.fromkeys(("amax", "amin"), (_ONE_AXIS,)),
    "atan2": (OtherForm("atan2 with its cut set", _ATAN2, _atan2),),
    "reciprocal": (OtherForm("a quotient", "1 is a tensor that is divided by x", lambda self, **_: _one(self) / self),),
    "rsqrt": (OtherForm("a quotient by the root", _ROOT, lambda self, **_: _one(self) / self.sqrt()),),
    **dict.fromkeys(("logsumexp", "logaddexp"), (PARTS,)),
    "log_sigmoid": (OtherForm("log1p of small numbers", _KAHAN, lambda self, **_: -_softplus(-self, 1.0, 20.0)),),
    "softplus": (OtherForm("log1p of small numbers", _KAHAN, _softplus),),
    "log1p": (OtherForm("log1p of small numbers", _KAHAN, lambda self, **_: _log_of_more(self)),),
    "expm1": (OtherForm("expm1 of small numbers", "the rounding of exp(x) is divided out of exp(x) - 1", _expm1),),
    "isfinite": (OtherForm("below infinity", _BELOW, lambda self, **_: self.abs() < inf if is_float(self) else None),),
}
