"""How far rounding may move one captured operator, those included that were computed along with it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import cycle
from typing import Any

import numpy as np
import torch

from kokoro_nb.backends.called_operators import arguments_by_name, laid_out
from kokoro_nb.backends.signature import epsilon
from kokoro_nb.locate.rounding_families import FAMILIES, Call, by_channel, running_steps
from kokoro_nb.traces.statistics import blockwise

ROUNDINGS = 16  # how many times the measured effect of rounding is allowed: one draw of it may be a small one
COARSELY = 2  # times what the rounding of inputs of fewer bits does to a channel
UNROUNDED = 4  # times what it does to an element: some draws are small
UNITS = 4  # and how many units in the last place of the channel's peak
SILENT = 0.01  # of the tensor's peak: a channel below it is measured by that


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
            several = isinstance(result, tuple | list)
            return tuple(map(torch.zeros_like, result)) if several else torch.zeros_like(result)
        if name not in FAMILIES:
            return None
        call = Call(target, arguments_by_name(target, args, kwargs), result, self.unit)
        if name == "cumsum":
            self.steps, self.axis = running_steps(call), call["dim"]
        return FAMILIES[name](call)

    def _moved(self, result: Any, bound: Any) -> Any:
        """Return the result moved; where its bound is not known, by a few units."""
        if not isinstance(result, torch.Tensor) or not (result.is_floating_point() or result.is_complex()):
            return result  # a size; and of several results, what takes one is moved itself
        amount = 4 * self.unit * result.abs() if bound is None else bound
        drawn = (2 * torch.rand(result.shape, generator=self._generator, dtype=torch.float64) - 1 for _ in range(2))
        noise = torch.complex(*drawn) if result.is_complex() else next(drawn)
        return laid_out(torch.where(torch.isfinite(amount), result + amount * noise, result), result.stride())


EXACT = {
    *("_reshape_copy", "_to_copy", "_unsafe_view", "alias_copy", "cat", "clone", "constant_pad_nd", "contiguous"),
    *("copy", "embedding", "expand_copy", "flip", "gather", "index", "index_select", "lift_fresh_copy", "pad"),
    *("reflection_pad1d", "reflection_pad2d", "repeat", "repeat_interleave", "replication_pad1d", "roll", "stack"),
    *("tile", "to", "unbind_copy", "where"),
}


def is_float(dtype: np.dtype) -> bool:
    """Return whether a type is one of floats, those of ml_dtypes with it."""
    return dtype.kind == "f" or dtype.name.startswith(("bfloat16", "float"))


def spacing(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return the unit in the last place of `dtype` at each of the float64 `values`; that at 0.5 of those not finite."""
    info = torch.finfo(getattr(torch, dtype.name))  # NumPy knows none of 8 bits, nor bfloat16
    digits, lowest, highest = (int(np.frexp(one)[1]) - 1 for one in (1 / info.eps, info.smallest_normal, info.max))

    def at(some: np.ndarray) -> np.ndarray:
        sizes = np.where(np.isfinite(some), some, 0.5)
        powers = (sizes.view(np.int64) & np.int64(0x7FF << 52)).view(np.float64)  # of two: the mantissa is cut off
        return np.clip(powers, 2.0**lowest, 2.0**highest) * 2.0**-digits

    return blockwise(at, values)


def units(right: np.ndarray, spacing_at_1: float) -> np.ndarray:
    """Return the rounding of the results themselves, by channel."""
    size = np.where(np.isfinite(right), np.abs(right), 0.0)
    return UNITS * spacing_at_1 * np.maximum(by_channel(size), SILENT * float(size.max(initial=0.0)))


def measured(right: np.ndarray, *others: np.ndarray) -> np.ndarray:
    """Return what rounding explains of an operator of no family, by channel: how far it took some other results."""
    return ROUNDINGS * by_channel(apart(right, *others))


def nudged(values: Mapping[Any, Any], unit: float) -> dict[Any, Any]:
    """Return the floats among the values in float64, each moved at random by up to `unit` of itself."""
    draw = np.random.default_rng(0).uniform
    floats = {
        key: np.asarray(one).astype(np.float64) * (1 + unit * draw(-1, 1, np.shape(one)))
        for key, one in values.items()
        if isinstance(one, np.ndarray | np.generic) and is_float(one.dtype)
    }
    return {**values, **floats}


def kept_wide(
    compute: Callable[[list[np.ndarray]], Any], narrow: Sequence[np.ndarray], right: np.ndarray
) -> np.ndarray:
    """Return what half a unit in the last place of inputs of fewer bits explains.

    A runtime without kernels for them computes in more bits, and need not round what it hands to the next operator.
    """
    generator, found = np.random.default_rng(0), np.zeros(right.shape)
    for signs in ((1, 1), (-1, -1), (1, -1), (-1, 1), (0, 0)):  # the last at random
        moved = []
        for x, sign in zip(narrow, cycle(signs)):
            wide = x.astype(np.float64)
            moved.append(wide + 0.5 * spacing(wide, x.dtype) * (sign or generator.uniform(-1, 1, x.shape)))
        found = np.maximum(found, apart(right, compute(moved)))
    return np.maximum(UNROUNDED * found, COARSELY * by_channel(found))


def apart(right: np.ndarray, *others: Any) -> np.ndarray:
    """Return the largest difference where both are finite, 0 elsewhere: what is not finite is judged by its kind.

    So is what has another shape: sizes are floats too, and moving them may change a shape.
    """
    found = [blockwise(_difference, right, one) for one in map(np.asarray, others) if one.shape == right.shape]
    return reduce(np.maximum, found) if found else np.zeros(right.shape)


@np.errstate(invalid="ignore")
def _difference(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    difference = np.abs(np.subtract(one, other, dtype=np.float64))
    return np.where(np.isfinite(difference), difference, 0.0)
