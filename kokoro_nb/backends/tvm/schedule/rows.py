"""Functions that reduce along their last axes, such as norms and softmax: all that concerns one row at a time."""

from collections.abc import Collection
from typing import Any

from kokoro_nb.backends.tvm.schedule.loop_rules import Processor, blocks, inline, name_of, schedule_of, share
from kokoro_nb.backends.tvm.schedule.sine import SINE, with_sines
from kokoro_nb.backends.tvm.schedule.structure import Nest, constant, every, nests, same, spliced, substituted


def rowwise(function: Any, _machine: Processor, _constants: Collection[int]) -> Any | None:
    """Return the schedule of a function whose reductions all run along rows, or None.

    Every block is moved into one loop over the rows, which the cores share, so that a row stays in the cache from the
    first block to the last.
    """
    function = with_lanes(with_sines(function))
    found = nests(function) or []
    depth = _depth(found)
    if depth == 0:
        return None
    schedule = schedule_of(function)
    once = {nest.name for nest in found if len(_extents(nest)) <= depth}  # one number per row
    inline(schedule, once | {nest.name for nest in found if nest.name.startswith(SINE)})
    *before, last = blocks(schedule)
    row = share(schedule, last, _dimensions(found[-1], depth))
    for block in reversed(before):
        schedule.compute_at(block, row)
        if name_of(schedule, block).startswith(PARTIAL):
            *_, lane, step = schedule.get_loops(block)
            schedule.reorder(step, lane)
    return schedule


def _depth(found: list[Nest]) -> int:
    """Return how many axes make up the rows, 0 if the nests do not agree on them."""
    rows = [_extents(nest) for nest in found if nest.reduces]
    shared = min(rows, key=len, default=[])
    return len(shared) if all(_extents(nest)[: len(shared)] == shared for nest in found) else 0


def _extents(nest: Nest) -> list[int]:
    """Return the extents of the axes that are not summed over, but for those of 1."""
    return [extent for var, extent in nest.axes.items() if var not in nest.reduces and extent > 1]


def _dimensions(nest: Nest, depth: int) -> int:
    """Return how many of the first axes of the nest hold `depth` that are longer than 1."""
    long = [place for place, extent in enumerate(nest.axes.values()) if extent > 1]
    return long[depth - 1] + 1


def elementwise(function: Any, _machine: Processor, _constants: Collection[int]) -> Any | None:
    """Return the schedule of a function of injective nests, or None: one loop over the elements of each result."""
    found = nests(function)
    if not found or not all(nest.injective for nest in found):
        return None
    schedule = schedule_of(function)
    inline(schedule, set())
    for block in blocks(schedule):
        if schedule.get_loops(block):
            share(schedule, block)
    return schedule


LANES = 32  # sums side by side
PARTIAL = "partial"  # the names of the blocks that add these up begin so


def with_lanes(function: Any) -> Any:
    """Return `function` with every long sum along a row written as `LANES` sums, and their sum."""
    for number, nest in enumerate(nests(function) or []):
        if _is_sum(nest):
            function = _spread(function, nest, number)
    return function


def _is_sum(nest: Nest) -> bool:
    """Return whether the nest adds up numbers of float32 along one axis, from 0 on."""
    from tvm import ir, tirx

    start, store = nest.block.init, nest.store
    if len(nest.reduces) != 1 or store is None or not isinstance(start, tirx.BufferStore):
        return False
    total = store.value
    if not isinstance(total, tirx.Add):
        return False
    zero = isinstance(start.value, tirx.FloatImm) and float(start.value) == 0.0
    plain = zero and isinstance(total.a, ir.TensorLoad) and same(total.a.source, store.buffer)
    (along,) = nest.reduces
    spread = [var for var in nest.axes if not same(var, along)]
    ordered = len(store.indices) == len(spread) and all(map(same, store.indices, spread))
    return plain and ordered and str(store.buffer.dtype) == "float32" and nest.axes[along] >= 2 * LANES


def _spread(function: Any, nest: Nest, number: int) -> Any:
    from tvm import ir, te, tirx

    (along,), term = nest.reduces, nest.stores[0].value.b
    axes = [var for var in nest.axes if not same(var, along)]
    length = constant(nest.axes[along], along)
    buffers: dict[Any, Any] = {load.source: None for load in every(term, ir.TensorLoad)}
    sources = {buffer: te.placeholder(buffer.shape, str(buffer.dtype)) for buffer in buffers}
    step = te.reduce_axis((0, constant(-(-nest.axes[along] // LANES), along)), "k")
    lane = te.reduce_axis((0, constant(LANES, along)), "lane")

    def part(*place: Any) -> Any:
        *row, one = place
        at = step.var * LANES + one
        value = _read(substituted(term, dict(zip([*axes, along], [*row, at], strict=True))), sources)
        return te.sum(tirx.if_then_else(at < length, value, tirx.const(0, "float32")), axis=step)

    shape = [constant(nest.axes[var], along) for var in axes]
    parts = te.compute([*shape, constant(LANES, along)], part, name=f"{PARTIAL}_{number}")
    total = te.compute(shape, lambda *row: te.sum(parts[(*row, lane.var)], axis=lane), name=f"total_{number}")
    return spliced(function, nest, te.create_prim_func([*sources.values(), total]), [*sources, nest.stores[0].buffer])


def _read(value: Any, sources: dict[Any, Any]) -> Any:
    """Return an expression that reads tensors in place of buffers."""
    import tvm_ffi
    from tvm import ir

    return tvm_ffi.structural_map(value, (ir.TensorLoad, lambda load: sources[load.source][tuple(load.indices)]))
