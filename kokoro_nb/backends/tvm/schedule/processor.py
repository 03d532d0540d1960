"""What the rules need to know of a processor, and the shape of the block of results that it keeps in registers."""

from dataclasses import dataclass
from typing import Any


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
