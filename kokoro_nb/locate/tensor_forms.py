"""Other forms of sums, norms and products, and of what indices point at, and how any form is put into a program."""

from collections.abc import Collection
from functools import partial
from math import isqrt, prod
from typing import Any

import torch

from kokoro_nb.backends.exported import Exported
from kokoro_nb.faults.planting import FaultSite, copied_program, with_program
from kokoro_nb.locate import forms
from kokoro_nb.locate.forms import PARTS, OtherForm, axes_of, choose, is_float, is_mask, is_tensor, with_last

LARGEST = 2**24  # products that are written out for a sum


def _normed(x: Any, axes: list[int], eps: float) -> Any:
    centred = x - x.mean(axes, True)
    return centred * ((centred * centred).mean(axes, True) + eps).rsqrt()


def _affine(x: Any, weight: Any, bias: Any, shape: list[int]) -> Any:
    x = x if weight is None else x * weight.view(shape)
    return x if bias is None else x + bias.view(shape)


def _group_norm(input: Any, weight: Any, bias: Any, eps: float, **given: Any) -> Any:
    """Return a norm of groups of channels, or, if no number of groups is given, of each channel: an instance norm."""
    if not given.get("use_input_stats", True):
        return None
    shape, groups = input.shape, given.get("num_groups", input.shape[1])
    grouped = input.reshape(shape[0], groups, prod(shape[1:]) // groups)
    return _affine(_normed(grouped, [2], eps).reshape(shape), weight, bias, [1, -1, *[1] * (len(shape) - 2)])


def _layer_norm(input: Any, normalized_shape: list[int], weight: Any, bias: Any, eps: float, **_: Any) -> Any:
    axes = list(range(input.ndim - len(normalized_shape), input.ndim))
    return _affine(_normed(input, axes, eps), weight, bias, normalized_shape)


def _variance(self: Any, dim: Any, correction: Any, keepdim: bool, **_: Any) -> Any:
    axes = axes_of(self, dim)
    centred = self - self.mean(axes, True)
    count = prod(self.shape[axis] for axis in axes) - (1 if correction is None else correction)
    return (centred * centred).sum(axes, keepdim) / float(count)


def _rms_norm(input: Any, normalized_shape: list[int], weight: Any, eps: float | None, **_: Any) -> Any:
    axes = list(range(input.ndim - len(normalized_shape), input.ndim))
    mean = _in_blocks(input * input, axes) / prod(normalized_shape)
    mean = mean.view(*input.shape[: axes[0]], *[1] * len(axes))
    eps = torch.finfo(input.dtype).eps if eps is None else eps
    return _affine(input * (mean + eps).rsqrt(), weight, None, normalized_shape)


def _sum(self: Any, result: Any, op: Any, dim: Any = None, **_: Any) -> Any:
    if not is_float(self) or not self.ndim:
        return None
    total = _in_blocks(self.to(result.dtype), axes_of(self, dim)).reshape(result.shape)
    return total / (self.numel() / result.numel()) if "mean" in str(op) else total


def _in_blocks(x: Any, axes: list[int]) -> Any:
    """Return the sum over axes: those of blocks, and then that of these."""
    rows = with_last(x, axes)
    size = max(1, isqrt(rows.shape[-1]))
    rows = torch.constant_pad_nd(rows, [0, -rows.shape[-1] % size])
    return rows.reshape(*rows.shape[:-1], -1, size).sum(-1).sum(-1)


def _running_sum(self: Any, dim: int, **_: Any) -> Any:
    """Return running sums within blocks, and the sum of all blocks before each."""
    if not self.ndim:
        return None
    axis, shape = dim % self.ndim, list(self.shape)
    size = max(1, isqrt(shape[axis]))
    padded = torch.constant_pad_nd(self, [*[0, 0] * (self.ndim - 1 - axis), 0, -shape[axis] % size])
    inside = padded.reshape(*shape[:axis], -1, size, *shape[axis + 1 :]).cumsum(axis + 1)
    totals = inside.narrow(axis + 1, size - 1, 1)
    return (inside + (totals.cumsum(axis) - totals)).reshape(padded.shape).narrow(axis, 0, shape[axis])


def _cast_first(self: Any, dim: int, op: Any, result: Any, **_: Any) -> Any:
    return None if self.dtype == result.dtype else op(self.to(result.dtype), dim)


def _product(op: Any, result: Any, **given: Any) -> Any:
    """Return a product of two matrices: of float16 in float32, of float64 as a sum of products."""
    if result.dtype in (torch.float16, torch.bfloat16):
        return op(*(one.float() for one in given.values() if is_tensor(one))).to(result.dtype)
    a, b, bias = ([one for one in given.values() if is_tensor(one)] + [None])[:3]
    if result.dtype != torch.float64 or min(a.ndim, b.ndim) < 2 or result.numel() * a.shape[-1] > LARGEST:
        return None
    b = b.transpose(-2, -1) if "linear" in str(op) else b
    total = (a.unsqueeze(-1) * b.unsqueeze(-3)).sum(-2)
    return total if bias is None else total + bias


_CAST = OtherForm("one dtype first", "the numbers are cast to the dtype of the result first", _cast_first)
_TWO_PASS = "the mean is subtracted first, then the squares are averaged"
_BLOCKS = OtherForm("sums in blocks", "sums of blocks are added, and not all numbers one by one", _sum)
_MULTIPLIED = "float16 matrices are multiplied in float32, float64 ones by sums of products"
_PRODUCT = OtherForm("a product in its dtype", _MULTIPLIED, _product)
RUNNING = OtherForm("a running sum in blocks", "running sums of blocks, and the sums of the blocks", _running_sum)


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
        found = found + (torch.arange(shape[axis]) * prod(shape[axis + 1 :])).reshape(-1, *[1] * behind)
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


def _placed(x: Any, where: Any, values: Any, accumulate: bool) -> Any:
    """Return what a write of `values`, which broadcast, to places makes of a tensor laid flat."""
    values = values.to(x.dtype).expand(where.shape).reshape(-1)
    return x.reshape(-1).index_put((where.reshape(-1),), values, accumulate).reshape(x.shape)


def _put(self: Any, indices: Any, values: Any, accumulate: bool, **_: Any) -> Any:
    where = _indexed(self.shape, indices)
    return None if where is None else _placed(self, where, values, accumulate)


def _scattered(self: Any, dim: int, index: Any, op: Any, src: Any = None, reduce: Any = None, **_: Any) -> Any:
    if not self.ndim or src is None or reduce is not None:
        return None
    sizes = [*enumerate(index.shape)]
    grid = {axis: torch.arange(size).reshape(-1, *[1] * (self.ndim - 1 - axis)) for axis, size in sizes}
    for axis, size in sizes:
        src = src.narrow(axis, 0, size)
    return _placed(self, places(self.shape, grid | {dim % self.ndim: index}), src, "add" in str(op))


def _reduced(self: Any, dim: int, index: Any, src: Any, reduce: str, include_self: bool, **_: Any) -> Any:
    """Return a sum or a mean of what is scattered to each place as sums by scatter_add."""
    if reduce not in ("sum", "mean") or not is_float(self):
        return None
    start, counts = self, torch.full_like(self, 1.0)
    if not include_self:
        zeros = torch.full_like(index, 0, dtype=self.dtype)
        start, counts = (one.scatter(dim, index, zeros) for one in (start, counts))
    total = start.scatter_add(dim, index, src)
    if reduce == "sum":
        return total
    return total / counts.scatter_add(dim, index, torch.full_like(index, 1, dtype=self.dtype))


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
    full = partial(torch.full_like, condition, dtype=result.dtype)
    x, other = (one.to(result.dtype) if is_tensor(one) else full(one) for one in (self, other))
    return x.where(condition, other)


def _infinite(fill_value: Any, result: Any, **_: Any) -> Any:
    """Return what is not finite as the logarithm of 0, or of -1."""
    if not is_float(result) or abs(fill_value) < float("inf"):
        return None
    found = torch.full(result.shape, -1.0 if fill_value != fill_value else 0.0, dtype=result.dtype).log()
    return -found if fill_value > 0 else found


FORMS: dict[str, tuple[OtherForm, ...]] = {
    **forms.ELEMENTWISE,
    **dict.fromkeys(("instance_norm", "group_norm"), (OtherForm("two-pass norm", _TWO_PASS, _group_norm),)),
    "layer_norm": (OtherForm("two-pass norm", _TWO_PASS, _layer_norm),),
    "rms_norm": (OtherForm("RMS in blocks", "the squares are summed in blocks, not one by one", _rms_norm),),
    "var": (OtherForm("two-pass variance", _TWO_PASS, _variance),),
    "cumsum": (_CAST, RUNNING),
    "cumprod": (_CAST,),
    **dict.fromkeys(("sum", "mean"), (_BLOCKS,)),
    **dict.fromkeys(("matmul", "mm", "bmm", "linear"), (_PRODUCT,)),
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


def _wide(op: Any, result: Any, blocks: bool, **given: Any) -> Any:
    """Return what a float16 operator gives in float32, rounded; with `blocks` running sums are computed in blocks."""
    if result.dtype != torch.float16:
        return None

    def widened(one: Any) -> Any:
        if one is torch.float16:
            return torch.float32
        return one.float() if isinstance(one, torch.Tensor) and one.dtype == torch.float16 else one

    wide = dict(torch.fx.node.map_aggregate(given, widened))
    return (RUNNING.function(**wide) if blocks and "cumsum" in str(op) else forms.called(op, op, wide)).half()


IN_FLOAT32 = {one: OtherForm("float32", "it computes in float32", partial(_wide, blocks=one)) for one in (False, True)}


def forms_of(kind: str) -> tuple[OtherForm, ...]:
    """Return the other forms of operators of a kind, those of this package first."""
    return tuple(dict.fromkeys((*FORMS.get(kind, ()), forms.DECOMPOSED)))


def in_other_form(exported: Exported, names: Collection[str], form: OtherForm) -> Exported | None:
    """Return a program in which the operators `names` are written in another form; None where none could be."""
    program, results = copied_program(exported)
    written = [_written(program, results[name], form, name) for name in names if name in results]
    if form in IN_FLOAT32.values():
        _unround(program.graph, [node for node in written if node is not None])
    return with_program(exported, program) if any(written) else None


def _unround(graph: Any, written: Collection[Any]) -> None:
    """Have operators in float32 read what one gives another before it is rounded to float16."""
    for rounded in written:
        wide = rounded.args[0]
        for reader in [*rounded.users]:
            if reader.target == rounded.target and reader.meta["val"].dtype == wide.meta["val"].dtype:
                reader.replace_all_uses_with(wide)
                graph.erase_node(reader)
        if not rounded.users:
            graph.erase_node(rounded)


def _written(program: Any, node: Any, form: OtherForm, name: str) -> Any:
    """Write one operator in another form and return the node with its result, or None."""
    site = FaultSite(program, node, name)
    result = form.write(site)
    if result is None:
        return None
    site.give(result)
    program.graph.erase_node(node)
    for part in site.made if form is PARTS else ():
        kind = str(part.target).partition(".")[2].partition(".")[0]
        further = next(filter(None, (_written(program, part, one, name) for one in FORMS.get(kind, ()))), None)
        result = further if further is not None and part is result else result
    return result
