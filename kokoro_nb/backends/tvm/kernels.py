"""What indexes, and the steps of an LSTM, as tensor expressions and loops: each a function of the compiled library."""

from collections.abc import Callable, Sequence
from typing import Any


def bounded(size: int, lowest: int) -> Callable[[Any], Any]:
    """Return the kernel that passes indices on if they lie in an axis of `size`, counted from its end where negative.

    It raises `IndexError` in the library itself: what TVM generates for an index reads or writes wherever it points.

    Parameters
    ----------
    size : int
        Length of the axis.
    lowest : int
        Smallest index allowed: ``-size`` or 0.
    """

    def kernel(indices: Any) -> Any:
        from tvm import te, tirx
        from tvm.script.ir_builder import IRBuilder
        from tvm.script.ir_builder import tirx as T

        words = f"index out of range: the axis has {size} positions"

        def loops(ins: Sequence[Any], outs: Sequence[Any]) -> Any:
            with IRBuilder() as builder:
                with T.grid(*indices.shape) as found:
                    position = _tuple(found)
                    index = ins[0][position]
                    with T.Assert(tirx.all(index >= lowest, index < size), words, "IndexError"):
                        T.buffer_store(outs[0], _from_the_end(index, size), position)
                return builder.get()

        return te.extern([indices.shape], [indices], loops, dtype=[indices.dtype], name="bounded")

    return kernel


def from_the_end(size: int) -> Callable[[Any], Any]:
    """Return the tensor expression that counts negative indices from the end of an axis of `size`, unchecked."""

    def compute(indices: Any) -> Any:
        from tvm import te

        return te.compute(indices.shape, lambda *i: _from_the_end(indices(*i), size), name="from_the_end")

    return compute


def gather(axes: Sequence[int], rank: int, shape: Sequence[int]) -> Callable[..., Any]:
    """Return the tensor expression of ``x[..., index, ...]`` with one index tensor for each of `axes`.

    Parameters
    ----------
    axes : sequence of int
        Indexed axes of `x`, ascending.
    rank : int
        Rank of the index tensors, which have one shape.
    shape : sequence of int
        Of the result.
    """

    def compute(x: Any, *indices: Any) -> Any:
        from tvm import te

        return te.compute(tuple(shape), lambda *i: x[tuple(_source(i, axes, rank, x.ndim, indices))], name="gather")

    return compute


def gather_elements(axis: int) -> Callable[..., Any]:
    """Return the tensor expression of `torch.gather` along `axis`."""

    def compute(x: Any, indices: Any) -> Any:
        from tvm import te

        shape = tuple(indices.shape)
        return te.compute(shape, lambda *i: x[(*i[:axis], indices[i], *i[axis + 1 :])], name="gather_elements")

    return compute


def put(axes: Sequence[int], rank: int, accumulate: bool) -> Callable[..., Any]:
    """Return the kernel that copies `x` and writes, or adds, `values` where the index tensors point.

    `values` has the shape that the same indices would gather; see `gather` for the rest. Of values for one place the
    last stays.
    """

    def kernel(x: Any, values: Any, *indices: Any) -> Any:
        from tvm import te
        from tvm.script.ir_builder import IRBuilder
        from tvm.script.ir_builder import tirx as T

        def loops(ins: Sequence[Any], outs: Sequence[Any]) -> Any:
            before, given, places, after = ins[0], ins[1], ins[2:], outs[0]
            with IRBuilder() as builder:
                with T.seq_scope():
                    with T.grid(*x.shape) as found:
                        position = _tuple(found)
                        T.buffer_store(after, before[position], position)
                    with T.grid(*values.shape) as found:
                        position = _tuple(found)
                        place = tuple(_source(position, axes, rank, x.ndim, places))
                        value = given[position]
                        T.buffer_store(after, after[place] + value if accumulate else value, place)
                return builder.get()

        return te.extern([x.shape], [x, values, *indices], loops, dtype=[x.dtype], name="put")

    return kernel


def lstm_steps(reverse: bool) -> Callable[..., Any]:
    """Return the kernel of one direction of one LSTM layer, from the gates' share of the input on.

    It takes ``gates`` (steps, batch, 4 * hidden), in the order input, forget, cell, output; the recurrent weight
    (hidden, 4 * hidden); hidden and cell state (batch, hidden); and gives the outputs (steps, batch, hidden), the last
    hidden and cell state, and a scratch of (batch, 4 * hidden).
    """

    def kernel(gates: Any, weight: Any, hidden: Any, cell: Any) -> Any:
        from tvm import te, tirx
        from tvm.script.ir_builder import IRBuilder
        from tvm.script.ir_builder import tirx as T

        steps, batch, width = gates.shape[0], gates.shape[1], hidden.shape[1]

        def loops(ins: Sequence[Any], outs: Sequence[Any]) -> Any:
            given, recurrent, first_h, first_c = ins
            sequence, h, c, total = outs
            with IRBuilder() as builder:
                with T.seq_scope():
                    with T.grid(batch, width) as (b, j):
                        T.buffer_store(h, first_h[b, j], [b, j])
                        T.buffer_store(c, first_c[b, j], [b, j])
                    with T.serial(0, steps) as step:
                        t = steps - 1 - step if reverse else step
                        with T.grid(batch, 4 * width) as (b, j):
                            T.buffer_store(total, given[t, b, j], [b, j])
                        with T.grid(batch, width, 4 * width) as (b, k, j):
                            T.buffer_store(total, total[b, j] + h[b, k] * recurrent[k, j], [b, j])
                        with T.grid(batch, width) as (b, j):
                            enter, keep, new, out = (total[b, j + gate * width] for gate in range(4))
                            kept = tirx.sigmoid(keep) * c[b, j] + tirx.sigmoid(enter) * tirx.tanh(new)
                            T.buffer_store(c, kept, [b, j])
                            T.buffer_store(h, tirx.sigmoid(out) * tirx.tanh(c[b, j]), [b, j])
                            T.buffer_store(sequence, h[b, j], [t, b, j])
                return builder.get()

        shapes = [(steps, batch, width), hidden.shape, cell.shape, (batch, 4 * width)]
        return te.extern(shapes, [gates, weight, hidden, cell], loops, dtype=[gates.dtype] * 4, name="lstm_steps")

    return kernel


def _from_the_end(index: Any, size: int) -> Any:
    from tvm import tirx

    return tirx.Select(index < 0, index + tirx.const(size, "int64"), index)


def _source(position: Sequence[Any], axes: Sequence[int], rank: int, ndim: int, indices: Sequence[Any]) -> list[Any]:
    """Return where in `x`, of `ndim` axes, the element at `position` of the gathered result lies.

    The axes of the index tensors stand where the first indexed axis stood, or in front where these are apart.
    """
    together = list(axes) == list(range(axes[0], axes[0] + len(axes)))
    front = axes[0] if together else 0
    inside = tuple(position[front : front + rank])
    rest = iter([*position[:front], *position[front + rank :]])
    read = {axis: index[inside] for axis, index in zip(axes, indices, strict=True)}
    return [read[axis] if axis in read else next(rest) for axis in range(ndim)]


def _tuple(found: Any) -> tuple[Any, ...]:
    """Return loop variables as a tuple: a grid of one axis gives the variable itself."""
    return tuple(found) if isinstance(found, Sequence) else (found,)
