"""Converters of the operators that read or write where indices point: counted from the end, and checked.

What TVM's importer makes of them reads before the array for ``x[-1]``, and anywhere for an index that is too large.
"""

from collections.abc import Sequence
from typing import Any

from kokoro_nb.backends.tvm import kernels
from kokoro_nb.backends.tvm.calls import GraphCall


def select(call: GraphCall) -> Any:
    """Convert ``x[:, 3]``, the index a number that PyTorch has checked."""
    x, axis, index = call.arguments()
    shape = tuple(call.operands()[0].shape)
    return call.emit(call.op.take(x, call.constant(index % shape[axis], "int64"), axis, mode="fast"))


def index(call: GraphCall) -> Any:
    """Convert ``x[i, :, j]``."""
    x, indices = call.arguments()
    return _gathered(call, x, call.operands()[0].shape, indices, counts_back=True)


def index_select(call: GraphCall) -> Any:
    """Convert `torch.index_select`."""
    x, axis, indices = call.arguments()
    shape = call.operands()[0].shape
    return _gathered(call, x, shape, _on_axis(axis % len(shape), indices), counts_back=False)


def embedding(call: GraphCall) -> Any:
    """Convert a look-up of rows of a table."""
    table, indices, *_ = call.arguments()
    return _gathered(call, table, call.operands()[0].shape, [indices], counts_back=False)


def gather(call: GraphCall) -> Any:
    """Convert `torch.gather`."""
    x, axis, indices, *_ = call.arguments()
    shape = call.operands()[0].shape
    axis %= len(shape)
    return call.compute(kernels.gather_elements(axis), x, _bounded(call, indices, shape[axis], counts_back=False))


def index_put(call: GraphCall) -> Any:
    """Convert ``x[i, :, j] = values``, or ``+=``."""
    x, indices, values, accumulate = call.arguments()
    shape = call.operands()[0].shape
    axes, places = _places(call, shape, indices, counts_back=True)
    rank = len(places[0].ty.shape)
    reached = _reached(shape, axes, tuple(int(size) for size in places[0].ty.shape))
    values = call.emit(call.op.broadcast_to(call.cast(values, call.dtype), reached))
    return call.loops(kernels.put(axes, rank, accumulate), x, values, *places)


def scatter(call: GraphCall) -> Any:
    """Convert `torch.scatter` of a tensor or a number, and `torch.scatter_add`."""
    x, axis, indices, source, *_ = call.arguments()
    shape, reached = call.operands()[0].shape, tuple(call.operands()[2].shape)
    axis %= len(shape)
    if not hasattr(source, "ty"):
        source = call.emit(call.op.full(reached, call.constant(source, call.dtype), call.dtype))
    elif tuple(call.operands()[3].shape) != reached:  # no more of it is read
        start, axes = [0] * len(reached), list(range(len(reached)))
        source = call.emit(call.op.strided_slice(source, axes, start, list(reached)))
    places = _bounded(call, indices, shape[axis], counts_back=False)
    reduction = "add" if "scatter_add" in call.node.target.__name__ else "update"
    return call.emit(call.op.scatter_elements(x, places, source, axis=axis, reduction=reduction))


def _on_axis(axis: int, indices: Any) -> list[Any]:
    return [*[None] * axis, indices]


def _gathered(call: GraphCall, x: Any, shape: Sequence[int], indices: Sequence[Any], counts_back: bool) -> Any:
    axes, places = _places(call, shape, indices, counts_back)
    return call.compute(kernels.gather(axes, len(places[0].ty.shape), call.shape), x, *places)


def _places(
    call: GraphCall, shape: Sequence[int], indices: Sequence[Any], counts_back: bool
) -> tuple[list[int], list[Any]]:
    """Return the indexed axes, and their indices, checked and broadcast to one shape."""
    import numpy as np

    axes = [axis for axis, given in enumerate(indices) if given is not None]
    given = [indices[axis] for axis in axes]
    if any(str(one.ty.dtype.dtype) == "bool" for one in given):
        raise NotImplementedError(
            f"{call.node.target.__name__} takes a mask where TVM wants integers; write it with torch.where."
        )
    wide = np.broadcast_shapes(*(tuple(int(size) for size in one.ty.shape) for one in given))
    checked = [_bounded(call, one, shape[axis], counts_back) for axis, one in zip(axes, given, strict=True)]
    return axes, [call.emit(call.op.broadcast_to(one, wide)) for one in checked]


def _bounded(call: GraphCall, indices: Any, size: int, counts_back: bool) -> Any:
    """Return `indices` as int64, counted from the start of an axis of `size`, with an error for one outside."""
    indices = call.cast(indices, "int64")
    if call.checks:
        return call.loops(kernels.bounded(int(size), -int(size) if counts_back else 0), indices)
    return call.compute(kernels.from_the_end(int(size)), indices) if counts_back else indices


def _reached(shape: Sequence[int], axes: Sequence[int], wide: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of ``x[indices]``, by the rule of `kernels.gather`."""
    rest = [int(size) for axis, size in enumerate(shape) if axis not in axes]
    front = axes[0] if list(axes) == list(range(axes[0], axes[0] + len(axes))) else 0
    return (*rest[:front], *wide, *rest[front:])


CONVERTERS = {
    "select.int": select,
    "index.Tensor": index,
    "index_select.default": index_select,
    "embedding.default": embedding,
    "gather.default": gather,
    "index_put.default": index_put,
    "scatter.src": scatter,
    "scatter.value": scatter,
    "scatter_add.default": scatter,
}
