"""Where the statistics of instance norms lie in a ``.pte`` file's planned memory, and what was there before."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kokoro_nb.backends.base import quietly

_NORM = "_native_batch_norm_legit"
_MEAN, _INVERSE = 7, 8  # arguments of `_native_batch_norm_legit.no_stats_out`, counted from 0
_BYTES = {"HALF": 2, "BFLOAT16": 2, "FLOAT": 4, "INT": 4, "DOUBLE": 8, "LONG": 8, "BOOL": 1, "BYTE": 1, "CHAR": 1}


@dataclass(frozen=True)
class NormMemory:
    """How often the norm's statistics lie where something else lay earlier in the same call.

    Attributes
    ----------
    norms : int
        Instance norms that run in ExecuTorch's own kernels.
    used_before : int
        Those of them whose mean or inverse deviation overlaps memory that an earlier instruction, or an input, has
        used: the first call finds it as it was left, not as it was loaded.
    """

    norms: int
    used_before: int


def norm_memory(path: Path) -> NormMemory:
    """Read the plan of the one method of the ``.pte`` file at `path`."""
    with quietly():
        from executorch.exir._serialize import _program

        read = _program.deserialize_pte_binary(path.read_bytes())
    plan = getattr(read, "program", read).execution_plan[0]  # later versions put the program beside its data
    used = {place for index in plan.inputs if (place := _place(plan.values[index]))}
    norms = dirty = 0
    for instruction in plan.chains[0].instructions:
        call = instruction.instr_args
        arguments = getattr(call, "args", ())
        if hasattr(call, "op_index") and _NORM in plan.operators[call.op_index].name:
            norms += 1
            statistics = [_place(plan.values[arguments[index]]) for index in (_MEAN, _INVERSE)]
            dirty += any(_overlap(place, other) for place in statistics if place for other in used)
        used |= set(_places(plan, arguments))
    return NormMemory(norms, dirty)


Place = tuple[int, int, int]  # which memory, first byte, byte behind the last


def _places(plan: Any, arguments: Any) -> Iterator[Place]:
    for index in arguments:
        value = plan.values[index]
        items = getattr(value.val, "items", None)
        for each in items if isinstance(items, list) else [index]:
            place = _place(plan.values[each]) if each >= 0 else None
            if place:
                yield place


def _place(value: Any) -> Place | None:
    """Return where a tensor lies in planned memory; None for what is no tensor, or a constant."""
    where = getattr(value.val, "allocation_info", None)
    if where is None:
        return None
    size = _BYTES[value.val.scalar_type.name]
    for length in value.val.sizes:
        size *= length
    start = where.memory_offset_low | (where.memory_offset_high << 32)
    return where.memory_id, start, start + size


def _overlap(one: Place, other: Place) -> bool:
    return one[0] == other[0] and one[1] < other[2] and other[1] < one[2]
