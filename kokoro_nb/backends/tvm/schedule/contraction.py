"""Sums of products: matrix products and convolutions, recognised by how they read their two operands.

Both are the same thing to a processor. One operand, the *columns*, is read along the last axis of the result, a vector
of neighbours at once; the other, the *rows*, does not depend on that axis: one number of it is multiplied with the
whole vector. A convolution differs from a matrix product in that some of the summed axes, its taps, move along the
columns.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kokoro_nb.backends.tvm.schedule.structure import Nest, constant, every, int_of, same, simplified, substituted, uses

Split = tuple[Any, Any, Any]


@dataclass(frozen=True)
class Contraction:
    """A nest that sums products, and the part that each of its axes plays.

    Attributes
    ----------
    nest : Nest
        The nest.
    columns, rows : tvm.tirx.BufferLoad
        The operands, in the axes of `extents`; axes of extent 1 are replaced by 0.
    extents : dict
        Extent of each axis.
    column : tvm.tirx.Var
        Last axis of the result that is longer than 1.
    row : tvm.tirx.Var or None
        Last axis of the result that only the rows depend on, if there is one.
    batch : tuple of tvm.tirx.Var
        The other axes of the result.
    summed : tuple of tvm.tirx.Var
        Axes summed over.
    taps : dict
        Those of them that move along the columns, and by how much.
    dimension, stride, base : int
        The dimension of `columns` that `column` runs along, by how much, from where on.
    groups : tuple of three tvm.tirx.Var, or None
        Of a grouped convolution the axis of the output channels, and the two that stand for it: group, place within.
    """

    nest: Nest
    columns: Any
    rows: Any
    extents: dict[Any, int]
    column: Any
    row: Any
    batch: tuple[Any, ...]
    summed: tuple[Any, ...]
    taps: dict[Any, int]
    dimension: int
    stride: int
    base: int
    groups: Split | None

    @property
    def result(self) -> Any:
        """Return the buffer that holds the sums."""
        return self.nest.stores[0].buffer

    @property
    def places(self) -> Any:
        """Return the axes of `result`, in the order of its dimensions."""
        return self.nest.stores[0].indices

    @property
    def columns_in_place(self) -> bool:
        """Return whether neighbours along `column` are neighbours in memory."""
        return self.stride == 1 and self.dimension == len(self.columns.indices) - 1


def contraction(nest: Nest) -> Contraction | None:
    """Return `nest` as a contraction of two buffers of float32, or None if it is none."""
    operands = _operands(nest)
    if operands is None:
        return None
    summed = [var for var, extent in nest.reduces.items() if extent > 1]
    axes = {var: extent for var, extent in nest.axes.items() if extent > 1 and var not in nest.reduces}
    if not axes or not summed:
        return None
    units = {var: constant(0, var) for var, extent in nest.axes.items() if extent == 1}
    columns, rows = (_mapped(load, units, {}) for load in operands)
    column = [*axes][-1]
    if not reads(columns, column):
        columns, rows = rows, columns
    if not reads(columns, column) or reads(rows, column):
        return None
    columns, rows, axes, groups = _ungrouped(columns, rows, axes)
    moved = _movement(columns, column, summed)
    if moved is None:
        return None
    own = [var for var in axes if reads(rows, var) and not reads(columns, var)]
    row = own[-1] if own else None
    batch = tuple(var for var in axes if not same(var, column) and (row is None or not same(var, row)))
    dimension, stride, base, taps = moved
    extents = axes | {var: nest.axes[var] for var in summed}
    return Contraction(
        nest, columns, rows, extents, column, row, batch, tuple(summed), taps, dimension, stride, base, groups
    )


def reads(load: Any, variable: Any) -> bool:
    """Return whether an index of `load` depends on `variable`."""
    return any(uses(index, variable) for index in load.indices)


def _operands(nest: Nest) -> tuple[Any, Any] | None:
    """Return the two factors if the nest starts at 0 and adds one product at a time."""
    from tvm import ir, tirx

    start, store = nest.block.init, nest.store
    if (
        store is None
        or not isinstance(start, tirx.BufferStore)
        or not isinstance(start.value, tirx.FloatImm)
        or float(start.value)
    ):
        return None
    total = store.value
    if not isinstance(total, tirx.Add) or not isinstance(total.a, ir.TensorLoad) or not isinstance(total.b, tirx.Mul):
        return None
    factors = (total.b.a, total.b.b)
    if not all(isinstance(load, ir.TensorLoad) and str(load.source.dtype) == "float32" for load in factors):
        return None
    return factors if same(total.a.source, store.buffer) else None


def _ungrouped(columns: Any, rows: Any, axes: dict[Any, int]) -> tuple[Any, Any, dict[Any, int], Split | None]:
    """Write the output channels of a grouped convolution as group and place in it, so that all indices are linear."""
    from tvm import tirx

    for channel in axes:
        sizes = {int_of(part.b) for part in every(columns, tirx.FloorDiv) if same(part.a, channel)}
        size = sizes.pop() if len(sizes) == 1 else None
        if not size or axes[channel] % size:
            continue
        group, member = (tirx.Var(name, channel.ty.dtype) for name in ("group", "member"))
        split = {group: axes[channel] // size, member: size}
        wider: dict[Any, int] = {}
        for var, extent in axes.items():
            wider |= split if same(var, channel) else {var: extent}
        whole = {channel: group * size + member}
        return _mapped(columns, whole, wider), _mapped(rows, whole, wider), wider, (channel, group, member)
    return columns, rows, axes, None


def _movement(columns: Any, column: Any, summed: list[Any]) -> tuple[int, int, int, dict[Any, int]] | None:
    """Return the dimension that `column` runs along, by how much, from where, and the axes that move with it."""
    from tvm.sym import detect_linear_equation

    places = [i for i, index in enumerate(columns.indices) if uses(index, column)]
    if len(places) != 1:
        return None
    (place,) = places
    found = [int_of(step) for step in detect_linear_equation(columns.indices[place], [column, *summed])]
    steps = [step for step in found if step is not None and step >= 0]
    if not steps or len(steps) != len(found) or steps[0] == 0:
        return None
    taps = {var: step for var, step in zip(summed, steps[1:-1], strict=True) if step}
    elsewhere = [index for i, index in enumerate(columns.indices) if i != place]
    if any(uses(index, var) for index in elsewhere for var in taps):
        return None
    return place, steps[0], steps[-1], taps


def _mapped(load: Any, mapping: Mapping[Any, Any], extents: Mapping[Any, int]) -> Any:
    """Return `load` with variables replaced, its indices simplified by the ranges of the variables."""
    from tvm import tirx

    return tirx.BufferLoad(load.source, [simplified(substituted(index, mapping), extents) for index in load.indices])
