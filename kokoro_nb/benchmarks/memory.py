"""Peak memory of a program, each in a process of its own that has loaded nothing else.

Run as ``python -m kokoro_nb.benchmarks.memory FOLDER`` it is that process: it reads ``request.json`` there and writes
``answer.json``.
"""

import json
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.backends.base import Artifact
from kokoro_nb.backends.process_request import ANSWER, ask, read_request
from kokoro_nb.backends.signature import Arrays
from kokoro_nb.benchmarks.requested_calls import request_of, requested_call, save_module

CALLS = 2
_STATUS = Path("/proc/self/status")
_RUNTIMES = (
    *(("onnxruntime", ("onnxruntime",)), ("executorch", ("executorch.runtime",)), ("tvm", ("tvm.relax",))),
    *(("coreml", ("coremltools",)), ("eager", ("torch", "kokoro.istftnet")), ("", ("torch",))),
)


@dataclass(frozen=True)
class Memory:
    """How far a process had grown at most, MB (10⁶ bytes), above the Python interpreter that it began as.

    Attributes
    ----------
    imported : float
        When the runtime was imported.
    loaded : float
        When the program was loaded.
    run : float
        When it had run twice.
    process : float
        At the end, the interpreter included: what a system shows as its peak.
    """

    imported: float
    loaded: float
    run: float
    process: float

    def as_dict(self) -> dict[str, float]:
        """Return the columns of a table."""
        return {f"memory {name} (MB)": each for name, each in asdict(self).items()}


def of_artifact(artifact: Artifact, inputs: Arrays) -> Memory:
    """Measure loading an artefact and running it.

    Parameters
    ----------
    artifact : Artifact
        Of a backend that writes files, or eager's own.
    inputs : mapping
        Name -> tensor or array.

    Raises
    ------
    RuntimeError
        If the process fails; with what it printed.
    """
    request, arrays, module = request_of(artifact, inputs)
    return _measured(request, arrays, module)


def of_speaking(text: str, folder: str | Path | None, weights: str = "", seed: int = 0) -> Memory:
    """Measure loading and speaking a text with a delivered folder's two stages, or without one with PyTorch's model."""
    if folder is None:
        return _measured({"kind": "model", "backend": "eager", "weights": weights, "seed": seed, "text": text})
    return _measured({"kind": "stages", "backend": "", "folder": str(Path(folder).resolve()), "text": text})


def _measured(request: Mapping[str, Any], arrays: Mapping[str, np.ndarray] | None = None, module: Any = None) -> Memory:
    with tempfile.TemporaryDirectory() as room:
        folder = Path(room)
        save_module(module, folder)
        return Memory(**ask(__name__, folder, request, arrays or {}, "was measured"))


def peak() -> float:
    """Return the most resident memory that this process has had, MB."""
    try:
        return resident("VmHWM")
    except OSError:
        import resource

        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most / 1e6 if sys.platform == "darwin" else most * 1024 / 1e6


def resident(key: str) -> float:
    """Return a line of Linux's account of this process's memory, MB: ``VmRSS`` now, ``VmHWM`` at most, see proc(5).

    Raises
    ------
    OSError
        If the system has no such account.
    """
    for line in _STATUS.read_text().splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise OSError(f"{_STATUS} has no {key}")


def _serve(folder: Path) -> None:
    """Answer the request in `folder`."""
    request = read_request(folder)
    marks = [peak()]
    for module in next(modules for prefix, modules in _RUNTIMES if request["backend"].startswith(prefix)):
        import_module(module)
    marks.append(peak())
    call = requested_call(request, folder)
    marks.append(peak())
    for _ in range(CALLS):
        call()
    imported, loaded, run = (mark - marks[0] for mark in (*marks[1:], peak()))
    (folder / ANSWER).write_text(json.dumps(asdict(Memory(imported, loaded, run, peak()))), encoding="utf-8")


if __name__ == "__main__":
    _serve(Path(sys.argv[1]))
