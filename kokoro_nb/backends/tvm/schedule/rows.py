"""Functions that reduce along their last axes, such as norms and softmax: all that concerns one row at a time."""

from collections.abc import Collection
from typing import Any

from kokoro_nb.backends.tvm.schedule.loop_rules import blocks, inline, name_of, schedule_of, share
from kokoro_nb.backends.tvm.schedule.processor import Processor
from kokoro_nb.backends.tvm.schedule.sine import SINE, with_sines
from kokoro_nb.backends.tvm.schedule.structure import Nest, nests
from kokoro_nb.backends.tvm.schedule.sums import PARTIAL, with_lanes


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
