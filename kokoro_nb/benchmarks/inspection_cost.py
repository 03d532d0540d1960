"""Time and peak memory of the inspection of a file, each in a process of its own: by its nodes, and at a model's size.

Run as ``python -m kokoro_nb.benchmarks.inspection_cost FILE [INPUTS]`` it is that process, and prints one line of JSON.
"""

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from kokoro_nb.benchmarks.memory import peak

if TYPE_CHECKING:
    from kokoro_nb.models.kokoro import Kokoro  # the process that inspects shall have loaded no model

SIZES = (1000, 10_000)  # nodes
WIDTH = 256  # rows and columns of what passes each node
IR, OPSET = 8, 17
FIRST = "peak memory over the first"


def by_nodes(sizes: Sequence[int] = SIZES, width: int = WIDTH) -> Iterator[dict[str, Any]]:
    """Inspect chains of functions that differ in their number of nodes alone.

    Parameters
    ----------
    sizes : sequence of int
        Nodes.
    width : int
        What passes each is (width, width) float32.

    Yields
    ------
    dict
        Row of a table: nodes, verdict, wall time (s), peak memory (MB), that over the first row's.
    """
    first = 0.0
    with TemporaryDirectory() as room:
        for size in sizes:
            row = _inspected(_chain(size, width, Path(room) / f"{size}.onnx"))
            first = first or row["peak memory (MB)"]
            yield {**row, FIRST: row["peak memory (MB)"] / first}


def of_model(kokoro: "Kokoro", tokens: int, seed: int = 0) -> dict[str, Any]:
    """Inspect the whole model as it is delivered to kokoro-onnx, on so many token ids, both pads among them."""
    from kokoro_nb.delivery.clients.client_delivery import deliver_to
    from kokoro_nb.models.voices import load_voice

    symbols = sorted({one for one in kokoro.model.vocab.values() if one})
    drawn = np.random.default_rng(seed).choice(symbols, tokens - 2)
    ids = np.array([[0, *drawn, 0]], np.int64)
    style = load_voice(kokoro, kokoro.default_voice)[tokens - 3]
    with TemporaryDirectory() as room:
        deliver_to(kokoro, "kokoro-onnx", Path(room) / "delivery")
        (file,) = (Path(room) / "delivery").glob("*.onnx")
        inputs = Path(room) / "inputs.npz"
        np.savez(inputs, input_ids=ids, style=style.numpy(), speed=np.ones(1, np.float32))
        return {"tokens": tokens, "file (MB)": file.stat().st_size / 1e6, **_inspected(file, inputs)}


def _chain(size: int, width: int, path: Path) -> Path:
    import onnx
    from onnx import TensorProto, helper

    kinds = ("Sin", "Tanh", "Neg")
    nodes = [helper.make_node(kinds[k % len(kinds)], [f"v{k}"], [f"v{k + 1}"], name=f"/node_{k}") for k in range(size)]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [width, width]) for name in ("v0", f"v{size}")]
    graph = helper.make_graph(nodes, "chain", ends[:1], ends[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR), path)
    return path


def _inspected(*arguments: Path) -> dict[str, Any]:
    """Inspect a file in a process of its own.

    Raises
    ------
    RuntimeError
        If that fails; with what it printed.
    """
    command = [sys.executable, "-m", __name__, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"The inspection failed: {done.stderr[-2000:]}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def _main(file: str, inputs: str = "") -> None:
    from kokoro_nb.inspection import inspect

    given = dict(np.load(inputs)) if inputs else None
    begun, used = time.perf_counter(), time.process_time()
    report = inspect(file, given)
    row = {
        "nodes": report.nodes,
        "verdict": report.verdict,
        "time (s)": time.perf_counter() - begun,
        "processor time (s)": time.process_time() - used,
        "peak memory (MB)": peak(),
    }
    print(json.dumps(row))


if __name__ == "__main__":
    _main(*sys.argv[1:])
