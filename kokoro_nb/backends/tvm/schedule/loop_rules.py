"""What the rules share: a schedule of a copy, the blocks in it, inlining, and loops that the cores share."""

from typing import Any

from kokoro_nb.backends.tvm.schedule.structure import CHOICE, every

WORTH_SHARING = 2**14  # elements; a loop with fewer is over before another core has begun


def schedule_of(function: Any) -> Any:
    """Return a schedule of a copy of `function`.

    Copied because TVM 0.27 schedules loops in place even where another function has them too, as the one has that
    `function` was made from.
    """
    from tvm import s_tir

    return s_tir.Schedule(s_tir.renew_defs(function))


def blocks(schedule: Any) -> list[Any]:
    """Return the blocks of a schedule, in order."""
    return list(schedule.get_child_blocks(schedule.get_sblock("root")))


def name_of(schedule: Any, block: Any) -> str:
    """Return the name of a block."""
    return str(schedule.get(block).name_hint)


def injective(schedule: Any, block: Any) -> bool:
    """Return whether a block reduces nothing."""
    return all(axis.iter_type == 0 for axis in schedule.get(block).iter_vars)


def cheap(schedule: Any, block: Any) -> bool:
    """Return whether a block computes without calling a function: it may as well be computed twice."""
    from tvm import ir

    return all(call.op.name == CHOICE for call in every(schedule.get(block).body, ir.Call))


def inline(schedule: Any, kept: set[str]) -> None:
    """Inline the injective blocks into what reads them, but for the `kept`, and what is read twice unless it is cheap.

    What a reduction reads beside something else is not cheap: it is long, as a rule.
    """
    results = schedule.mod["main"].params
    for block in blocks(schedule):
        readers = list(schedule.get_consumers(block))
        stays = not readers or name_of(schedule, block) in kept or not injective(schedule, block)
        if stays or any(write.source.same_as(result) for write in schedule.get(block).writes for result in results):
            continue
        again = cheap(schedule, block) and all(injective(schedule, reader) for reader in readers)
        if len(readers) == 1 or again:
            schedule.compute_inline(block)


def share(schedule: Any, block: Any, dimensions: int | None = None) -> Any:
    """Fuse the outer loops of a block into one, let the cores share it if that is worth it, and return it.

    Parameters
    ----------
    schedule : tvm.s_tir.Schedule
        The schedule.
    block : SBlockRV
        A block in its own loops.
    dimensions : int, optional
        How many loops to fuse; by default all but the last, which LLVM turns into vectors.
    """
    loops = schedule.get_loops(block)
    total = 1
    for loop in loops:
        total *= int(schedule.get(loop).extent)
    outer = schedule.fuse(*loops[: max(len(loops) - 1, 1) if dimensions is None else dimensions])
    if total >= WORTH_SHARING:
        schedule.parallel(outer)
    return outer
