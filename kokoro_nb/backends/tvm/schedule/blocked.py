"""Contractions, rebuilt so that they can be computed in blocks of registers, and scheduled so."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

from kokoro_nb.backends.tvm.schedule.contraction import Contraction, contraction
from kokoro_nb.backends.tvm.schedule.loop_rules import (
    MARK,
    Processor,
    Tile,
    blocks,
    inline,
    name_of,
    schedule_of,
    share,
    tile,
)
from kokoro_nb.backends.tvm.schedule.phases import KERNELS, phased
from kokoro_nb.backends.tvm.schedule.structure import Values, constant, nests, same, spliced, substituted, uses

COLUMNS, PRODUCT, RESULT = "block_columns", "block_product", "block_result"  # blocks of what `rebuilt` returns


def blocked(function: Any, machine: Processor, constants: Collection[int]) -> Any | None:
    """Return the schedule of a function that holds one contraction, and nothing else that reduces, or None.

    What it copies out of the parameters at `constants` is marked, to be copied before the program runs.
    """
    function = phased(function) or function
    reducing = [nest for nest in nests(function) or [] if not nest.injective]
    work = contraction(reducing[0]) if len(reducing) == 1 else None
    if work is None or _along_rows(work, [function.params[i] for i in constants]):
        return None
    shape = tile(machine, 1 if work.row is None else work.extents[work.row], work.extents[work.column])
    return _scheduled(rebuilt(function, work, shape), shape, constants)


def _along_rows(work: Contraction, fixed: Collection[Any]) -> bool:
    """Return whether it is a matrix times a vector, summed as the matrix lies in memory: blocks would turn it round.

    A matrix that is constant is turned round before the program runs.
    """
    plain = work.row is None and not work.taps and len(work.summed) == 1
    constant_matrix = any(same(work.columns.source, buffer) for buffer in fixed)
    return plain and not constant_matrix and same(work.columns.indices[-1], work.summed[0])


def rebuilt(function: Any, work: Contraction, shape: Tile) -> Any:
    """Return `function` with `work` computed over whole blocks: its axes rounded up, what sticks out left unused.

    The columns are copied into a buffer that is long enough, each phase of a stride by itself so that neighbours lie
    side by side, unless they can be read where they are.
    """
    from tvm import te

    sources = [te.placeholder(load.source.shape, "float32") for load in (work.columns, work.rows)]
    result = _result(work, _product(work, shape, sources))
    buffers = [work.columns.source, work.rows.source, work.result]
    return spliced(function, work.nest, te.create_prim_func([*sources, result]), buffers)


def _product(work: Contraction, shape: Tile, sources: Sequence[Any]) -> Any:
    """Return the tensor of the sums: (batch axes, rows, columns), the last two whole blocks."""
    from tvm import te, tirx

    column_at = _columns(work, shape, sources[0])
    height = 1 if work.row is None else work.extents[work.row]
    axes = [te.reduce_axis((0, constant(work.extents[var], var)), var.name) for var in work.summed]

    def total(*place: Any) -> Any:
        *batch, row, column = place
        here = dict(zip(work.batch, batch, strict=True)) | dict(zip(work.summed, (a.var for a in axes), strict=True))
        if work.row is not None:  # what sticks out repeats the last row
            here[work.row] = row if height % shape.rows == 0 else tirx.min(row, constant(height - 1, work.row))
        number = sources[1][tuple(_indices(work.rows, here))]
        return te.sum(column_at(here, column) * number, axis=axes)

    extents = [work.extents[var] for var in work.batch]
    extents += [_up(height, shape.rows), _up(work.extents[work.column], shape.columns)]
    return te.compute([constant(extent, work.column) for extent in extents], total, name=PRODUCT)


def _columns(work: Contraction, shape: Tile, source: Any) -> Callable[[Values, Any], Any]:
    """Return how a column is read: a function of the values of the axes and the column."""
    from tvm import te, tirx

    width = work.extents[work.column]
    if work.columns_in_place and width % shape.columns == 0:
        return lambda here, column: source[tuple(_indices(work.columns, {**here, work.column: column}))]
    across = [index for i, index in enumerate(work.columns.indices) if i != work.dimension]
    kept = [var for var in (*work.batch, *work.summed) if any(uses(index, var) for index in across)]
    furthest = work.base + sum(step * (work.extents[var] - 1) for var, step in work.taps.items())
    length = _up(width, shape.columns) + furthest // work.stride
    limit = source.shape[work.dimension]

    def copied(*place: Any) -> Any:
        *others, phase, position = place
        indices = _indices(work.columns, dict(zip(kept, others, strict=True)))
        indices[work.dimension] = position * work.stride + phase
        inside = indices[work.dimension] < limit
        return tirx.if_then_else(inside, source[tuple(indices)], tirx.const(0, "float32"))

    extents = [*(work.extents[var] for var in kept), work.stride, length]
    copy = te.compute([constant(extent, work.column) for extent in extents], copied, name=COLUMNS)

    def column_at(here: Values, column: Any) -> Any:
        moved = sum((here[var] * step for var, step in work.taps.items()), constant(work.base, work.column))
        return copy[(*(here[var] for var in kept), moved % work.stride, column + moved // work.stride)]

    return column_at


def _result(work: Contraction, product: Any) -> Any:
    """Return the tensor of the result: what the original nest wrote."""
    from tvm import te

    def element(*place: Any) -> Any:
        values = dict(zip(work.places, place, strict=True))
        if work.groups is not None:
            channel, group, member = work.groups
            size = work.extents[member]
            values |= {group: values[channel] // size, member: values[channel] % size}
        row = constant(0, work.column) if work.row is None else values[work.row]
        return product[(*(values[var] for var in work.batch), row, values[work.column])]

    return te.compute(work.result.shape, element, name=RESULT)


def _indices(load: Any, values: Values) -> list[Any]:
    return [substituted(index, values) for index in load.indices]


def _up(value: int, step: int) -> int:
    return -(-value // step) * step


def _scheduled(function: Any, shape: Tile, constants: Collection[int]) -> Any:
    """Return the schedule of a function out of `rebuilt`."""
    schedule = schedule_of(function)
    product = schedule.get_sblock(PRODUCT)
    sources = [block for block in schedule.get_producers(product) if not _renames(schedule, block)]
    inline(schedule, {COLUMNS, KERNELS, *(name_of(schedule, block) for block in sources)})
    fixed = [schedule.mod["main"].params[i] for i in constants]
    for block in blocks(schedule):
        name = name_of(schedule, block)
        if name != PRODUCT:
            share(schedule, block)
        if name in (COLUMNS, KERNELS) and any(same(schedule.get(block).reads[0].source, param) for param in fixed):
            schedule.annotate(block, MARK, True)
    _in_registers(schedule, product, shape)
    return schedule


def _renames(schedule: Any, block: Any) -> bool:
    """Return whether a block only copies."""
    from tvm import ir

    return isinstance(schedule.get(block).body.value, ir.TensorLoad)


def _in_registers(schedule: Any, product: Any, shape: Tile) -> None:
    """Compute the sums block by block, each block in registers until it is complete."""
    loops = schedule.get_loops(product)
    axes = schedule.get(product).iter_vars
    *batch, row, column = (loop for loop, axis in zip(loops, axes, strict=True) if axis.iter_type == 0)
    summed = loops[len(batch) + 2 :]
    rows, r = schedule.split(row, [None, shape.rows])
    columns, vector, lane = schedule.split(column, [None, shape.vectors, shape.lanes])
    schedule.reorder(*batch, columns, rows, *summed, r, vector, lane)
    outer = schedule.fuse(*batch, columns, rows)
    schedule.parallel(outer)
    kept = schedule.cache_write(product, 0, "local")
    schedule.reverse_compute_at(kept, outer)
    _unrolled(schedule, r, vector, lane)
    _unrolled(schedule, *schedule.get_loops(schedule.decompose_reduction(product, summed[0]))[-3:])
    schedule.vectorize(schedule.split(schedule.get_loops(kept)[-1], [None, shape.lanes])[1])


def _unrolled(schedule: Any, row: Any, vector: Any, lane: Any) -> None:
    schedule.unroll(row)
    schedule.unroll(vector)
    schedule.vectorize(lane)
