"""What another form of an operator is, and what forms are written with."""

import operator
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from math import prod
from typing import Any

from kokoro_nb.faults.planting_site import FaultSite

Write = Callable[[FaultSite], Any]


@dataclass(frozen=True)
class OtherForm:
    """Another form of an operator, equal in exact arithmetic.

    Attributes
    ----------
    name, statement : str
        A short name, and what is computed in its place.
    write : callable
        Adds the other form behind the operator and returns the node with its result; None where it does not apply.
    """

    name: str
    statement: str
    write: Write


class Writer:
    """Adds operators of PyTorch's behind the one at a site: ``add("mul.Tensor", x, y)``."""

    def __init__(self, site: FaultSite):
        self._site = site

    def __call__(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Add an operator by its name and overload."""
        import torch

        packet, _, overload = name.partition(".")
        mode = getattr(self._site.value, "fake_mode", None)
        with nullcontext() if mode is None else mode:  # what is made of no tensor has to be a stand-in as well
            return self._site.emit(getattr(getattr(torch.ops.aten, packet), overload or "default"), *args, **kwargs)

    def again(self, /, **changes: Any) -> Any:
        """Add the operator itself once more, with other arguments by name."""
        given = {**self._site.arguments, **changes}
        schema = self._site.node.target._schema.arguments
        named = {one.name: given[one.name] for one in schema if one.kwarg_only and given[one.name] is not None}
        return self._site.emit(
            self._site.node.target, *(given[one.name] for one in schema if not one.kwarg_only), **named
        )

    def element(self, pair: Any, place: int) -> Any:
        """Add what takes one of several results."""
        return self._site.emit(operator.getitem, pair, place)

    def over(self, name: str, x: Any, other: Any) -> Any:
        """Add a binary operator of a tensor and another or a number."""
        return self(f"{name}.{'Tensor' if is_tensor(other) else 'Scalar'}", x, other)

    def where(self, condition: Any, x: Any, other: Any) -> Any:
        """Add a choice between two tensors, or a tensor and a number."""
        x, other = (one if is_tensor(one) else self.filled(two, one) for one, two in ((x, other), (other, x)))
        return self("where.self", condition, x, other)

    def filled(self, like: Any, value: Any) -> Any:
        """Add a tensor of one number."""
        return self("full_like", like, value)

    def cast(self, x: Any, dtype: Any) -> Any:
        """Add a cast, where one is needed."""
        return x if meta(x).dtype == dtype else self("_to_copy", x, dtype=dtype)

    def last(self, x: Any, axes: Sequence[int]) -> Any:
        """Add a view with several axes as one, the last."""
        shape = meta(x).shape
        rest = [axis for axis in range(len(shape)) if axis not in axes]
        moved = x if [*rest, *axes] == list(range(len(shape))) else self("permute", x, [*rest, *axes])
        return self("reshape", moved, [*(shape[axis] for axis in rest), prod(shape[axis] for axis in axes)])


def is_tensor(value: Any) -> bool:
    """Return whether an argument of an operator is the result of another, and no number."""
    return hasattr(value, "meta")


def meta(node: Any) -> Any:
    """Return the stand-in of a tensor: its shape and dtype."""
    return node.meta["val"]


def is_float(node: Any) -> bool:
    """Return whether a tensor holds floats."""
    return bool(meta(node).is_floating_point())


def axes_of(x: Any, given: Any) -> list[int]:
    """Return the axes that a reduction names: a number, several, or all where it names none."""
    ndim = meta(x).ndim
    named = [given] if isinstance(given, int) else list(given or range(ndim))
    return sorted(axis % max(ndim, 1) for axis in named)
