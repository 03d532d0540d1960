"""Transposed convolutions without the products that are zero.

TVM writes a transposed convolution of stride `s` as a convolution over its input with `s` - 1 zeros between neighbours.
Of the taps that meet at one result only every `s`-th meets a number: which ones depends on the place of the result
modulo `s`, its phase. Each phase is an ordinary convolution over the input as it is, with every `s`-th tap.
"""

from collections.abc import Callable
from typing import Any

from kokoro_nb.backends.tvm.schedule.contraction import Contraction, contraction, reads
from kokoro_nb.backends.tvm.schedule.structure import (
    CHOICE,
    Nest,
    Values,
    constant,
    every,
    int_of,
    nests,
    same,
    simplified,
    spliced,
    substituted,
)

KERNELS = "phase_kernels"  # the block that gathers the taps of each phase


def phased(function: Any) -> Any | None:
    """Return `function` with its transposed convolution computed phase by phase, or None if it has none.

    The taps must share out evenly among the phases; a weight added to even them out would multiply inf by zero.
    """
    found = nests(function)
    works = [work for work in map(contraction, found or []) if work is not None]
    if found is None or len(works) != 1 or not works[0].columns_in_place or list(works[0].taps.values()) != [1]:
        return None
    (work,) = works
    (tap,) = work.taps
    dilation = _dilation(found, work)
    if dilation is None or work.base != 0 or work.extents[tap] % dilation[0] or work.groups is not None:
        return None
    return _rebuilt(function, work, tap, *dilation)


def _dilation(found: list[Nest], work: Contraction) -> tuple[int, int] | None:
    """Return stride and first place of the numbers along the last axis of the columns, if all between them is zero."""
    from tvm import tirx
    from tvm.sym import detect_linear_equation

    place = tirx.Var("place", work.column.ty.dtype)
    load = work.columns
    value = _traced(tirx.BufferLoad(load.source, [*load.indices[:-1], place]), found)
    strides = {int_of(part.b): part.a for part in every(value, tirx.FloorMod)}
    if len(strides) != 1:
        return None
    ((stride, position),) = strides.items()
    steps = [int_of(step) for step in detect_linear_equation(position, [place])]
    if stride is None or stride < 2 or len(steps) != 2 or steps[0] != 1 or steps[1] is None:
        return None
    first = -steps[1] % stride
    many, between = (tirx.Var(name, work.column.ty.dtype) for name in ("many", "between"))
    elsewhere = substituted(value, {place: many * stride + first + between + 1})
    rest = simplified(elsewhere, {many: int(load.source.shape[-1]), between: stride - 1} | work.extents)
    return (stride, first) if _is_zero(rest) else None


def _is_zero(value: Any) -> bool:
    """Return whether a simplified expression is zero whichever way it chooses."""
    from tvm import ir, tirx

    if isinstance(value, ir.Call) and value.op.name == CHOICE:
        return _is_zero(value.args[1]) and _is_zero(value.args[2])
    return isinstance(value, tirx.FloatImm) and float(value) == 0.0


def _traced(value: Any, found: list[Nest]) -> Any:
    """Return `value` with what is read from the results of injective nests replaced by how they are computed."""
    import tvm_ffi
    from tvm import ir

    def source(load: Any) -> Any:
        for nest in found:
            (store, *_) = nest.stores
            if nest.injective and nest.in_order and same(store.buffer, load.source):
                there = dict(zip(store.indices, load.indices, strict=True))
                return _traced(substituted(store.value, there), found)
        return load

    return tvm_ffi.structural_map(value, (ir.TensorLoad, source))


def _rebuilt(function: Any, work: Contraction, tap: Any, stride: int, first: int) -> Any:
    """Return `function` with one sum per phase, and the phases put side by side.

    The tap ``j * stride + stride - 1 - phase`` meets the number ``k + j`` at the place ``k * stride + phase - late``.
    """
    from tvm import te

    late, taps = stride - 1 - first, work.extents[tap] // stride
    width = (work.extents[work.column] - 1 + late) // stride + 1
    height = 1 if work.row is None else work.extents[work.row]
    others = [var for var in work.summed if not same(var, tap)]
    sources = [te.placeholder(load.source.shape, "float32") for load in (work.columns, work.rows)]
    sample_at = _samples(work, sources[0], stride, first, width + taps - 1)
    weight_at = _kernels(work, sources[1], tap, stride)
    lengths = [*(work.extents[var] for var in others), taps]
    axes = [te.reduce_axis((0, constant(length, tap)), "summed") for length in lengths]

    def total(*place: Any) -> Any:
        *batch, phase, row, column = place
        *inner, step = (axis.var for axis in axes)
        here = dict(zip([*work.batch, *others], [*batch, *inner], strict=True))
        if work.row is not None:
            here[work.row] = row
        return te.sum(sample_at(here, column + step) * weight_at(here, phase, step), axis=axes)

    extents = [*(work.extents[var] for var in work.batch), stride, height, width]
    phases = te.compute([constant(extent, tap) for extent in extents], total, name="phase_sums")

    def element(*place: Any) -> Any:
        values = dict(zip(work.places, place, strict=True))
        row = constant(0, tap) if work.row is None else values[work.row]
        at = values[work.column] + late
        return phases[(*(values[var] for var in work.batch), at % stride, row, at // stride)]

    result = te.compute(work.result.shape, element, name="phase_result")
    buffers = [work.columns.source, work.rows.source, work.result]
    return spliced(function, work.nest, te.create_prim_func([*sources, result]), buffers)


def _samples(work: Contraction, source: Any, stride: int, first: int, length: int) -> Callable[[Values, Any], Any]:
    """Return how the numbers between the zeros are read: a function of the values of the axes and the place."""
    from tvm import te, tirx

    limit = source.shape[-1]
    kept = [var for var in (*work.batch, *work.summed) if var not in work.taps and reads(work.columns, var)]

    def sample(*place: Any) -> Any:
        *others, at = place
        values = dict(zip(kept, others, strict=True))
        position = at * stride + first
        indices = [*(substituted(index, values) for index in work.columns.indices[:-1]), position]
        return tirx.if_then_else(position < limit, source[tuple(indices)], tirx.const(0, "float32"))

    extents = [*(work.extents[var] for var in kept), length]
    tensor = te.compute([constant(extent, work.column) for extent in extents], sample, name="phase_samples")
    return lambda here, at: tensor[(*(here[var] for var in kept), at)]


def _kernels(work: Contraction, source: Any, tap: Any, stride: int) -> Callable[[Values, Any, Any], Any]:
    """Return how the taps of a phase are read: a function of the values of the axes, the phase and the tap."""
    from tvm import te

    kept = [var for var in work.extents if not same(var, tap) and reads(work.rows, var)]

    def weight(*place: Any) -> Any:
        phase, *others, step = place
        values: Values = {**dict(zip(kept, others, strict=True)), tap: step * stride + (stride - 1 - phase)}
        return source[tuple(substituted(index, values) for index in work.rows.indices)]

    extents = [stride, *(work.extents[var] for var in kept), work.extents[tap] // stride]
    tensor = te.compute([constant(extent, tap) for extent in extents], weight, name=KERNELS)
    return lambda here, phase, step: tensor[(phase, *(here[var] for var in kept), step)]
