"""What this machine does at best: floating-point operations in matrix products, and bytes copied, per second."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from kokoro_nb.benchmarks.interleaved import Call, in_turn, spread

SIZES = (256, 512, 1024, 1536)  # of square matrices: the smallest fit a core's own cache, the largest do not
COPIED = 128  # MB, some times the largest last-level cache that is common


@dataclass(frozen=True)
class Ceilings:
    """The two roofs of a roofline (Williams, Waterman and Patterson 2009, "Roofline").

    Attributes
    ----------
    gflops : float
        10⁹ operations of float32 per second in a matrix product, an addition and a multiplication each counted: the
        best of the sizes, by their medians.
    gbytes : float
        10⁹ bytes per second in a copy, those read and those written both counted.
    threads : int
        That it was measured with.
    by_size : dict
        Size of the matrices -> 10⁹ operations per second, the median.
    """

    gflops: float
    gbytes: float
    threads: int
    by_size: dict[int, float]

    def seconds(self, flops: float, moved: float) -> float:
        """Return the time that no program can beat: of the two, whichever takes longer."""
        return float(np.maximum(flops / (1e9 * self.gflops), moved / (1e9 * self.gbytes)))


def ceiling_calls(
    number: int | None = None, sizes: Sequence[int] = SIZES, megabytes: int = COPIED
) -> tuple[dict[str, Call], Callable[[Mapping[str, Sequence[float]]], Ceilings]]:
    """Return the calls to time in PyTorch for both roofs, and a function that computes the roofs from the times.

    Timed in turn with the programs, the roofs are those of the machine as it was meanwhile.

    Parameters
    ----------
    number : int, optional
        Of threads; PyTorch's own by default.
    sizes : sequence of int
        Rows and columns of the matrices.
    megabytes : int
        What is copied, in 10⁶ bytes.
    """
    import torch

    number = number or torch.get_num_threads()
    source = torch.zeros(megabytes * 250_000)
    target = torch.empty_like(source)

    def product(size: int) -> Call:
        a, b, out = torch.ones(size, size), torch.ones(size, size), torch.empty(size, size)
        return _with_threads(number, lambda: torch.mm(a, b, out=out))

    calls = {f"product of {size}": product(size) for size in sizes}
    calls["copy"] = _with_threads(number, lambda: target.copy_(source))

    def read(times: Mapping[str, Sequence[float]]) -> Ceilings:
        by_size = {size: 2 * size**3 / spread(times[f"product of {size}"]).median / 1e9 for size in sizes}
        moved = 2 * megabytes / 1e3
        return Ceilings(float(np.max([*by_size.values()])), moved / spread(times["copy"]).median, number, by_size)

    return calls, read


def in_turn_with_ceilings(
    calls: Mapping[str, Call], rounds: int, limit: float
) -> tuple[dict[str, tuple[float, ...]], Ceilings]:
    """Time `calls` in turn, see `interleaved.in_turn`, and return their times and the roofs of the same rounds."""
    own, read = ceiling_calls()
    times = in_turn({**calls, **own}, rounds, limit)
    return {name: times[name] for name in calls}, read(times)


@contextmanager
def threads(number: int) -> Iterator[None]:
    """Have PyTorch compute with so many threads inside."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _with_threads(number: int, call: Call) -> Call:
    def within() -> None:
        with threads(number):
            call()

    return within
