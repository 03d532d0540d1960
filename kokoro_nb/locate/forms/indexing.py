"""What indices point at, in other forms: counted from the start, as places in one long axis; and what is filled."""

from math import prod
from typing import Any

import torch

from kokoro_nb.locate.forms import PARTS, OtherForm, choose, filled, is_float, is_mask, is_tensor


def _select(self: Any, dim: int, index: int, **_: Any) -> Any:
    return self.select(dim, index + self.shape[dim]) if index < 0 else None


def places(shape: Any, indices: dict[int, Any]) -> Any:
    """Return where each element that indices point at lies in what is laid flat, the axes as PyTorch orders them.

    Parameters
    ----------
    shape : sequence of int
        Of the tensor.
    indices : dict
        Axis -> whole numbers.
    """
    axes, wide = list(indices), max(one.ndim for one in indices.values())
    rest = [axis for axis in range(len(shape)) if axis not in axes]
    front = axes[0] if axes == list(range(axes[0], axes[0] + len(axes))) else 0
    found: Any = sum(one.long() * prod(shape[axis + 1 :]) for axis, one in indices.items())
    found = found.reshape([*found.shape, *[1] * (len(rest) - front)])
    for number, axis in enumerate(rest):
        behind = len(rest) - 1 - number + (wide if number < front else 0)
        along = torch.arange(shape[axis]) * prod(shape[axis + 1 :])
        found = found + along.reshape(-1, *[1] * behind)
    return found


def from_the_start(shape: Any, indices: dict[int, Any]) -> dict[int, Any]:
    """Return indices counted from the start."""
    return {axis: choose(one < 0, one + shape[axis], one) for axis, one in indices.items()}


def _indexed(shape: Any, indices: Any) -> Any:
    """Return the places that index tensors point at; None where one of them is a mask."""
    given = {axis: one for axis, one in enumerate(indices) if one is not None}
    return None if any(map(is_mask, given.values())) else places(shape, from_the_start(shape, given))


def _gathered(self: Any, indices: Any, **_: Any) -> Any:
    where = _indexed(self.shape, indices)
    return None if where is None else self.reshape(-1)[where]


def _written(x: Any, where: Any, values: Any, accumulate: bool) -> Any:
    """Return what a write of `values`, which broadcast, to places makes of a tensor laid flat."""
    values = values.to(x.dtype).expand(where.shape).reshape(-1)
    return x.reshape(-1).index_put((where.reshape(-1),), values, accumulate).reshape(x.shape)


def _put(self: Any, indices: Any, values: Any, accumulate: bool, **_: Any) -> Any:
    where = _indexed(self.shape, indices)
    return None if where is None else _written(self, where, values, accumulate)


def _scattered(self: Any, dim: int, index: Any, op: Any, src: Any = None, reduce: Any = None, **_: Any) -> Any:
    if not self.ndim or src is None or reduce is not None:
        return None
    sizes = [*enumerate(index.shape)]
    grid = {axis: torch.arange(size).reshape(-1, *[1] * (self.ndim - 1 - axis)) for axis, size in sizes}
    for axis, size in sizes:
        src = src.narrow(axis, 0, size)
    return _written(self, places(self.shape, grid | {dim % self.ndim: index}), src, "add" in str(op))


def _reduced(self: Any, dim: int, index: Any, src: Any, reduce: str, include_self: bool, **_: Any) -> Any:
    """Return a sum or a mean of what is scattered to each place as sums by scatter_add."""
    if reduce not in ("sum", "mean") or not is_float(self):
        return None
    start, counts = self, filled(self, 1.0)
    if not include_self:
        start, counts = (one.scatter(dim, index, filled(index, 0, self.dtype)) for one in (start, counts))
    total = start.scatter_add(dim, index, src)
    if reduce == "sum":
        return total
    return total / counts.scatter_add(dim, index, filled(index, 1, self.dtype))


def _masked(self: Any, indices: Any, values: Any, accumulate: bool, **_: Any) -> Any:
    """Return a choice in the place of a write of one number where a mask holds."""
    masks = [(axis, one) for axis, one in enumerate(indices) if one is not None]
    axis, mask = masks[0]
    if len(masks) != 1 or not is_mask(mask) or values.numel() != 1 or accumulate:
        return None
    mask = mask.reshape(*mask.shape, *[1] * (self.ndim - axis - mask.ndim))
    return values.reshape(()).to(self.dtype).where(mask, self)


def _cropped(self: Any, pad: Any, value: Any = 0, mode: str = "constant", **_: Any) -> Any:
    """Return what is cut off by a negative pad cut off first."""
    if mode != "constant" or all(one >= 0 for one in pad):
        return None
    x = self
    for place in range(len(pad) // 2):
        before, after = (-one if one < 0 else 0 for one in pad[2 * place : 2 * place + 2])
        axis = self.ndim - 1 - place
        x = x.narrow(axis, before, self.shape[axis] - before - after)
    added = [one if one > 0 else 0 for one in pad]
    return torch.constant_pad_nd(x, added, value or 0) if any(added) else x


_START = "the size of the axis is added to an index that is counted from its end"
_ONE = "one linear index", "the tensor is indexed as one long axis, by one number for each place"
_ADDED = OtherForm("sums by scatter_add", "the scattered values are summed, and divided by their count", _reduced)
_CROP = OtherForm("a crop in the place of a negative pad", "a negative pad is written as a slice", _cropped)
_WHERE = OtherForm("where in place of a mask", "where chooses between the number and the old value", _masked)


def _where(condition: Any, self: Any, other: Any, result: Any, **_: Any) -> Any:
    if is_tensor(self) and is_tensor(other):
        return None
    x, other = (
        one.to(result.dtype) if is_tensor(one) else filled(condition, one, result.dtype) for one in (self, other)
    )
    return x.where(condition, other)


def _infinite(fill_value: Any, result: Any, **_: Any) -> Any:
    """Return what is not finite as the logarithm of 0, or of -1."""
    if not is_float(result) or abs(fill_value) < float("inf"):
        return None
    inside = -1.0 if fill_value != fill_value else 0.0
    found = torch.full(result.shape, inside, dtype=result.dtype).log()
    return -found if fill_value > 0 else found


FORMS: dict[str, tuple[OtherForm, ...]] = {
    "select": (OtherForm("indices from the start", _START, _select),),
    "index": (OtherForm(*_ONE, _gathered),),
    **dict.fromkeys(("index_put", "index_put_"), (_WHERE, OtherForm(*_ONE, _put))),
    **dict.fromkeys(("index_copy", "index_add", "index_fill"), (PARTS,)),
    **dict.fromkeys(("scatter", "scatter_add"), (OtherForm(*_ONE, _scattered),)),
    "scatter_reduce": (_ADDED,),
    **dict.fromkeys(("pad", "constant_pad_nd"), (_CROP,)),
    "where": (OtherForm("where of tensors", "the number is a tensor of the result's dtype", _where),),
    "full": (OtherForm("an infinity computed", "an infinity is written as a logarithm", _infinite),),
    "upsample_linear1d": (PARTS,),
}
