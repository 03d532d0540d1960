"""Functions that reduce nothing: element by element, or copies in another order."""

from collections.abc import Collection
from typing import Any

from kokoro_nb.backends.tvm.schedule.loop_rules import blocks, inline, schedule_of, share
from kokoro_nb.backends.tvm.schedule.processor import Processor
from kokoro_nb.backends.tvm.schedule.structure import nests


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
