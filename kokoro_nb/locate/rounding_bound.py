"""How far rounding may move one captured operator, those included that were computed along with it."""

from dataclasses import dataclass
from typing import Any

import torch

from kokoro_nb.backends.called_operators import laid_out
from kokoro_nb.backends.signature import epsilon
from kokoro_nb.locate.rounding_families import FAMILIES, Call, running_steps


@dataclass(eq=False)
class RoundingBound:
    """Bounds each operator of a recomputation, and moves the results on the way as far as rounding may.

    An instance is the `substitute` of `Specification.recompute`. What the requested operator, the last, then gives
    differs from what is right by what the rounding of those before it may do to it.

    Parameters
    ----------
    dtype : str
        Of the backend's result.

    Attributes
    ----------
    own : torch.Tensor or None
        What rounding may do to the last operator by itself, elementwise; None if its family is not known.
    steps : torch.Tensor or None
        How far its error may move from one element to the next along `axis`, if it is a running sum.
    last : torch.Tensor or None
        What it gives on what was moved.
    """

    dtype: str
    own: Any = None
    steps: torch.Tensor | None = None
    axis: int = 0
    last: Any = None

    def __post_init__(self) -> None:
        self.unit = epsilon(self.dtype) / 2
        self._generator = torch.Generator().manual_seed(0)

    def __call__(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Any:
        """Bound one call, and return its result moved at random within that bound."""
        before, self.last, self.steps = self.own, result, None
        if getattr(target, "__name__", "") == "getitem":
            self.own = before[args[1]] if isinstance(before, tuple) else None
        else:
            self.own = self._bound(target, args, kwargs, result)
        return self._moved(result, self.own)

    def _bound(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Any:
        if hasattr(target, "explained"):  # an operator of several, which knows what rounding on the way does
            return target.explained(kwargs, result)
        name = str(target).split(".")[1] if str(target).startswith("aten.") else ""
        if getattr(target, "is_view", False) or name in EXACT:
            return _zeros(result)
        if name not in FAMILIES:
            return None
        parameters = target._schema.arguments
        given = dict(zip((one.name for one in parameters), args, strict=False)) | kwargs
        call = Call(target, {one.name: given.get(one.name, one.default_value) for one in parameters}, result, self.unit)
        if name == "cumsum":
            self.steps, self.axis = running_steps(call), call["dim"]
        return FAMILIES[name](call)

    def _moved(self, result: Any, bound: Any) -> Any:
        """Return the result moved; where its bound is not known, by a few units."""
        if isinstance(result, tuple | list) or not (result.is_floating_point() or result.is_complex()):
            return result  # what takes one of several results is moved itself
        amount = 4 * self.unit * result.abs() if bound is None else bound
        drawn = (2 * torch.rand(result.shape, generator=self._generator, dtype=torch.float64) - 1 for _ in range(2))
        noise = torch.complex(*drawn) if result.is_complex() else next(drawn)
        moved = torch.where(torch.isfinite(result) & torch.isfinite(amount), result + amount * noise, result)
        return laid_out(moved, result.stride())


EXACT = frozenset(
    (
        *("_reshape_copy", "_to_copy", "_unsafe_view", "alias_copy", "cat", "clone", "constant_pad_nd", "contiguous"),
        *("copy", "embedding", "expand_copy", "flip", "gather", "index", "index_select", "lift_fresh_copy", "pad"),
        *("reflection_pad1d", "reflection_pad2d", "repeat", "repeat_interleave", "replication_pad1d", "roll", "stack"),
        *("tile", "to", "unbind_copy", "where"),
    )
)


def _zeros(result: Any) -> Any:
    if isinstance(result, tuple | list):
        return tuple(torch.zeros_like(one) for one in result)
    return torch.zeros_like(result)
