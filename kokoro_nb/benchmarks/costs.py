"""What a diagnosis costs, by the number of operators, and what an inspection of the whole model's file does."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from kokoro_nb.backends.base import Failure, quietly
from kokoro_nb.backends.exported import Exported, export_program
from kokoro_nb.benchmarks.interleaved import timed
from kokoro_nb.benchmarks.memory import inspecting, of_call
from kokoro_nb.delivery.clients.client_delivery import deliver_to
from kokoro_nb.errors import InputError
from kokoro_nb.faults import Fault, plant
from kokoro_nb.inspection import diagnose, inspect
from kokoro_nb.models.kokoro import Kokoro
from kokoro_nb.models.voices import load_voice

SIZES = (100, 300, 1000, 3000, 5000)


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


def of_diagnosis(name: str = "onnxruntime", sizes: Sequence[int] = SIZES, seed: int = 0) -> Iterator[dict[str, Any]]:
    """Plant a fault in programs that grow, and find it by tracing all operators and by bisection.

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
        Row of a table, two for each size: whether the diagnosis named the wrong operator first; compilations,
        and how many there may be; wall time with its exports, seconds.

    Raises
    ------
    InputError
        If the backend is not available, cannot export the program, or a size is below 20.
    """
    few = [size for size in sizes if size < 20]
    if few:
        raise InputError(f"{few[0]} operators are too few to search; give 20 or more.")
    with quietly():
        of_one = len(_program(1, seed)[0].specification.operators)
    for size in sizes:
        healthy, given = _program(round(size / of_one), seed)
        places = [operator.name for operator in healthy.specification.operators]
        place = Random(seed).choice(places[len(places) // 4 : 3 * len(places) // 4])
        faulty = plant(healthy, Fault.parse(f"sign_flip@{place}"))
        for method in ("tracing", "bisection"):
            with TemporaryDirectory() as room, quietly():
                find = partial(diagnose, faulty, given, name, healthy, method, folder=room)
                found, took = timed(find)
            named = [one.candidates for one in found.culprits][:1] == [(place,)]
            row = {"operators": len(places), "method": method, "named": named}
            search = found.bisection
            counts = (search.compilations, search.limit) if search else (1, 1)
            yield {**row, "compilations": counts[0], "at most": counts[1], "time (s)": took}


def of_inspection(kokoro: Kokoro, tokens: int, seed: int = 0) -> dict[str, Any]:
    """Inspect the whole model as it is delivered to kokoro-onnx, on so many token ids, both pads among them."""
    symbols = sorted({one for one in kokoro.model.vocab.values() if one})
    drawn = np.random.default_rng(seed).choice(symbols, tokens - 2)
    style = load_voice(kokoro, kokoro.default_voice)[tokens - 3].numpy()
    inputs = {"input_ids": np.array([[0, *drawn, 0]], np.int64), "style": style, "speed": np.ones(1, np.float32)}
    with TemporaryDirectory() as room:
        deliver_to(kokoro, "kokoro-onnx", Path(room) / "delivery")
        (file,) = (Path(room) / "delivery").glob("*.onnx")
        report, took = timed(lambda: inspect(file, inputs))
        row = {"tokens": tokens, "file (MB)": file.stat().st_size / 1e6, "nodes": report.nodes}
        memory = of_call("onnxruntime", partial(inspecting, file, inputs), calls=1)
    return {**row, "verdict": report.verdict, "time (s)": took, **memory.as_dict()}


def _program(blocks: int, seed: int) -> tuple[Exported, dict[str, Tensor]]:
    with torch.random.fork_rng([]):
        torch.manual_seed(seed)
        given = {"x": torch.randn(1, 8, 32)}
        healthy = export_program(Chain(blocks).eval(), given)
    if isinstance(healthy, Failure):
        raise InputError(f"The program cannot be searched: {healthy}")
    return healthy, given
