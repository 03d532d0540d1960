"""What the rules share: a schedule of a copy, the blocks in it, inlining, and loops that the cores share."""

from dataclasses import dataclass
from typing import Any

from kokoro_nb.backends.tvm.schedule.structure import CHOICE, every


@dataclass(frozen=True)
class Processor:
    """A processor: how many vector registers it has, and how many numbers of float32 one of them holds."""

    lanes: int
    registers: int

    @classmethod
    def of(cls, target: Any) -> "Processor":
        """Return the processor of a TVM target."""
        from tvm.target.codegen import llvm_cpu_has_features

        if llvm_cpu_has_features("avx512f", target):
            return cls(16, 32)
        if llvm_cpu_has_features("avx2", target):
            return cls(8, 16)
        return cls(4, 32 if llvm_cpu_has_features("neon", target) else 16)


@dataclass(frozen=True)
class Tile:
    """A block of results kept in registers: `rows` times `vectors`, each of `lanes` columns."""

    rows: int
    vectors: int
    lanes: int

    @property
    def columns(self) -> int:
        """Return the number of columns."""
        return self.vectors * self.lanes


def tile(machine: Processor, rows: int, columns: int) -> Tile:
    """Return the block that computes `rows` times `columns` results in the fewest cycles.

    Of every tap, `r` rows and `v` vectors cost ``r * v`` multiplications, two per cycle, and the loading of `r` numbers
    and `v` vectors, two per cycle, of which a vector counts twice, since it straddles two lines of the cache. The two
    go on side by side, though never quite; fewer than eight sums at a time wait for each other. What sticks out of the
    result is computed in vain.
    """
    candidates = [
        Tile(r, v, machine.lanes)
        for r in range(1, min(rows, 8) + 1)
        for v in range(1, min(-(-columns // machine.lanes), 8) + 1)
        if r * v + v + 1 <= machine.registers
    ]

    def cycles(block: Tile) -> float:
        blocks = -(-rows // block.rows) * -(-columns // block.columns)
        loads = block.rows + 2 * block.vectors
        return blocks * (max(block.rows * block.vectors, loads, 8) + loads / 10)

    return min(candidates, key=cycles)


MARK = "meta_schedule.layout_rewrite_preproc"  # TVM's name
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
