"""Functions that reduce along their last axes, such as norms and softmax: all that concerns one row at a time."""

from collections.abc import Collection
from typing import Any

from kokoro_nb.backends.tvm.schedule.loop_rules import Processor, blocks, inline, name_of, schedule_of, share
from kokoro_nb.backends.tvm.schedule.structure import Nest, constant, every, nests, same, spliced, substituted

SINE = "sine"  # the names of the blocks begin so; LLVM makes vectors of them only where they stand alone
QUARTERS = {"tirx.sin": 0, "tirx.cos": 1}  # by how many quarters of a turn the function is ahead of the sine
LARGEST = 0x4D800000  # the bits of 2**28
MAGNITUDE = 0x7FFFFFFF  # all bits but the sign
TWO_OVER_PI = 6.36619772367581382433e-01
HALF_PI = 1.57079631090164184570  # the first 25 bits, so that multiples are exact
HALF_PI_REST = 1.58932547735281966916e-08
SINES = (-0.166666666416265235595, 0.0083333293858894631756, -0.000198393348360966317347, 0.0000027183114939898219064)
COSINES = (-0.499999997251031003120, 0.0416666233237390631894, -0.00138867637746099294692, 0.0000243904487962774090654)


def with_sines(function: Any) -> Any:
    """Return `function` with its sines and cosines written out, after the largest argument of each row.

    What is written out is a nest that computes one of them of a buffer, element by element, as Relax writes it.
    """
    for number, nest in enumerate(nests(function) or []):
        if _is_sine(nest):
            argument, result = nest.stores[0].value.args[0].source, nest.stores[0].buffer
            function = spliced(function, nest, _rows(nest, number), [argument, result])
    return function


def _is_sine(nest: Nest) -> bool:
    """Return whether the nest computes one of `QUARTERS` of rows of float32."""
    from tvm import ir

    call = None if nest.store is None else nest.store.value
    if not isinstance(call, ir.Call) or call.op.name not in QUARTERS or not isinstance(call.args[0], ir.TensorLoad):
        return False
    (load,), places = call.args, nest.stores[0].indices
    ordered = len(places) > 1 and len(load.indices) == len(places) and all(map(same, load.indices, places))
    return ordered and str(load.source.dtype) == "float32"


def _rows(nest: Nest, number: int) -> Any:
    """Return the function of the buffer, row by row."""
    from tvm import te, tirx

    call = nest.stores[0].value
    shape = call.args[0].source.shape
    *rows, width = shape
    source = te.placeholder(shape, "float32")
    axis = te.reduce_axis((0, width), "k")
    magnitude = lambda *i: tirx.reinterpret("int32", source[(*i, axis.var)]) & MAGNITUDE  # noqa: E731
    top = te.compute(rows, lambda *i: te.max(magnitude(*i), axis=axis), name=f"largest_{number}")

    def element(*place: Any) -> Any:
        value = source[place]
        exact = tirx.call_intrin("float32", call.op.name, value)
        return tirx.if_then_else(top[place[:-1]] < LARGEST, sine(value, QUARTERS[call.op.name]), exact)

    return te.create_prim_func([source, te.compute(shape, element, name=f"{SINE}_{number}")])


def sine(value: Any, quarters: int) -> Any:
    """Return the expression of the sine of `value` (float32, radians) plus `quarters` times pi / 2, below 2**28."""
    from tvm import tirx

    def double(number: float) -> Any:
        return tirx.const(number, "float64")

    def series(coefficients: tuple[float, ...], square: Any) -> Any:
        a, b, c, d = map(double, coefficients)
        return a + square * (b + square * (c + square * d))

    wide = value.astype("float64")
    quarter = tirx.nearbyint(wide * double(TWO_OVER_PI)).astype("int32")
    turns = quarter.astype("float64")  # by way of an integer, so that it is never -0, and the sine of -0 is
    rest = wide - turns * double(HALF_PI) - turns * double(HALF_PI_REST)
    square = rest * rest
    even, odd = (double(1) + square * series(coefficients, square) for coefficients in (SINES, COSINES))
    quadrant = quarter + tirx.const(quarters, "int32")
    height = tirx.Select((quadrant & 1) != 0, odd, rest * even)
    return tirx.Select((quadrant & 2) != 0, -height, height).astype("float32")


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
