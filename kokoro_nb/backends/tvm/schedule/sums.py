"""Sums along a row, a number of them side by side: one alone waits for itself, and rounds off more."""

from typing import Any

from kokoro_nb.backends.tvm.schedule.structure import Nest, constant, every, nests, same, spliced, substituted

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
