"""Time and compilations to find one wrong operator, by the number of operators of the program."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor, nn

from kokoro_nb.backends import backend
from kokoro_nb.backends.base import Failure, quietly, running
from kokoro_nb.backends.exported import Exported, export_program
from kokoro_nb.benchmarks.interleaved import timed
from kokoro_nb.errors import InputError
from kokoro_nb.faults import Fault, plant
from kokoro_nb.locate import investigate, reference_trace
from kokoro_nb.locate.bisection import bisect

SIZES = (100, 300, 1000, 3000, 5000)
TRACE, BISECTION = "trace of all operators", "bisection"
OPERATORS, NAMED, COMPILATIONS, AT_MOST = "operators", "named", "compilations", "at most"
KIND = "sign_flip"


class Chain(nn.Module):
    """Residual blocks of eight operators each, on (1, 8, 32): a convolution, a function of it and a norm."""

    def __init__(self, blocks: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Conv1d(8, 8, 3, padding=1) for _ in range(blocks))

    def forward(self, x: Tensor) -> Tensor:
        """Return what leaves the last block, in the shape of what enters the first."""
        for conv in self.blocks:
            y = torch.sin(conv(x))
            y = y - y.mean(-1, keepdim=True)
            x = x + 0.3 * y * torch.rsqrt(y.square().mean(-1, keepdim=True) + 1e-3)
        return x


def measure(name: str = "onnxruntime", sizes: Sequence[int] = SIZES, seed: int = 0) -> Iterator[dict[str, Any]]:
    """Plant a fault in programs that grow, and find it by a trace of all operators and by bisection.

    Parameters
    ----------
    name : str
        Key of `BACKENDS`, of a backend that shows its operators.
    sizes : sequence of int
        How many operators the programs have, about.
    seed : int
        Of the weights, the inputs and the place of the fault, which is in the middle half.

    Yields
    ------
    dict
        Row of a table, two for each size: whether the search named the wrong operator and that alone; compilations, and
        how many there may be; wall time of exporting the program once, and of the search with its own exports, seconds.

    Raises
    ------
    InputError
        If the backend is not available, cannot export the program, or a size is below 20.
    """
    running(backend(name))
    with quietly():
        of_one = len(_program(1, seed)[0].specification.operators)
    for size in sizes:
        if size < 20:
            raise InputError(f"{size} operators are too few to search; give 20 or more.")
        with TemporaryDirectory() as room:
            with quietly():
                rows = _located(name, *_program(round(size / of_one), seed), seed, Path(room))
            yield from rows


def _program(blocks: int, seed: int) -> tuple[Exported, dict[str, Tensor]]:
    with torch.random.fork_rng([]):
        torch.manual_seed(seed)
        given = {"x": torch.randn(1, 8, 32)}
        healthy = export_program(Chain(blocks).eval(), given)
    if isinstance(healthy, Failure):
        raise InputError(f"The program cannot be searched: {healthy}")
    return healthy, given


def _located(name: str, healthy: Exported, given: dict[str, Tensor], seed: int, room: Path) -> list[dict[str, Any]]:
    places = [operator.name for operator in healthy.specification.operators]
    place = Random(seed).choice(places[len(places) // 4 : 3 * len(places) // 4])
    faulty, count = plant(healthy, Fault.parse(f"{KIND}@{place}")), len(places)
    export = timed(lambda: backend(name).export(faulty, given, room / "one"))[1]

    def by_trace() -> Any:
        return investigate(faulty, given, name, reference_trace(healthy, given), room / "trace")

    seen, took = timed(by_trace)
    if isinstance(seen, Failure):
        raise InputError(f"The program cannot be searched: {seen}")
    cut, long = timed(lambda: bisect(faulty, given, backend(name), room / "parts", progress=False))
    search = cut.searches[0]
    found = (
        (TRACE, seen.divergence.candidates == (place,), 1, 1, took),
        (BISECTION, cut.culprits == (place,), search.compilations, search.limit, long),
    )
    columns = ("method", NAMED, COMPILATIONS, AT_MOST, "search (s)")
    return [{OPERATORS: count, "one export (s)": export, **dict(zip(columns, row, strict=True))} for row in found]
