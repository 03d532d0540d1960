"""An artefact run in a process of its own, one that has never seen the model: what a deployment does.

Run as ``python -m kokoro_nb.backends.fresh_process FOLDER`` it is that process: it reads ``request.json`` and
``inputs.npz`` there and writes ``outputs.npz`` and ``answer.json``.
"""

import json
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.backends.base import Artifact, Failure, loadable
from kokoro_nb.backends.process_request import ANSWER, INPUTS, ask, read_request
from kokoro_nb.backends.signature import Arrays, TensorSpec, checked
from kokoro_nb.errors import InputError

OUTPUTS = "outputs.npz"


@dataclass(frozen=True)
class FreshRun:
    """The result of a run in a process of its own.

    Attributes
    ----------
    outputs : dict
        Outputs of the last call, by name.
    seconds : dict
        Wall time of ``loaded``, the imports that the runtime needs included, and ``run``, the first call.
    calls : tuple of float
        Wall time of each call, seconds.
    modules : frozenset of str
        Names of all Python modules that were imported in the process when it was done.
    """

    outputs: dict[str, np.ndarray]
    seconds: Mapping[str, float]
    calls: tuple[float, ...]
    modules: frozenset[str]

    def imported(self, package: str) -> bool:
        """Say whether the process imported `package` or a module of it."""
        return any(name == package or name.startswith(f"{package}.") for name in self.modules)


def run_fresh(name: str, artifact: Artifact | Failure, inputs: Arrays, calls: int = 1) -> FreshRun:
    """Load `artifact` in a new Python process and run it there.

    The process imports `kokoro_nb.backends` and what the runtime needs; neither the speech model's package nor ours of
    models, unless the artefact itself cannot do without.

    Parameters
    ----------
    name : str
        Key of `BACKENDS`, of a backend that writes files.
    artifact : Artifact
        What it exported.
    inputs : mapping
        Name -> tensor or array.
    calls : int
        Number of calls on the loaded program, at least 1.

    Raises
    ------
    InputError
        If the artefact is a `Failure`, is not of this backend, is in memory alone or gone, if the inputs do not fit it,
        or `calls` is less than 1.
    RuntimeError
        If the process fails; with what it printed.
    """
    artifact = loadable(artifact, name)
    if artifact.path is None:
        raise InputError(f"{name} writes no file that another process could load; choose another backend.")
    if calls < 1:
        raise InputError(f"{calls} calls are too few; give 1 or more.")
    arrays = checked(inputs, artifact.inputs)
    with tempfile.TemporaryDirectory() as room:
        request = {**request_for(artifact), "path": str(artifact.path.resolve()), "calls": calls}
        answer = ask(__name__, Path(room), request, arrays, f"ran {name}")
        outputs = dict(zip(artifact.outputs, _stored(Path(room) / OUTPUTS), strict=True))
    times = tuple(answer["calls"])
    seconds = {"loaded": answer["loaded"], "run": times[0]}
    return FreshRun(outputs, seconds, times, frozenset(answer["modules"]))


def request_for(artifact: Artifact) -> dict[str, Any]:
    """Return what a request says of an artefact, wherever it lies."""
    specs = [asdict(spec) for spec in artifact.inputs]
    return {"backend": artifact.backend, "inputs": specs, "outputs": artifact.outputs}


def read_inputs(request: Mapping[str, Any], folder: Path) -> tuple[tuple[TensorSpec, ...], dict[str, np.ndarray]]:
    """Read the inputs of a request: what the artefact declares, and the arrays by name."""
    specs = tuple(TensorSpec(spec["name"], tuple(spec["shape"]), spec["dtype"]) for spec in request["inputs"])
    return specs, dict(zip((spec.name for spec in specs), _stored(folder / INPUTS), strict=True))


def _stored(path: Path) -> list[np.ndarray]:
    with np.load(path) as stored:
        return [stored[name] for name in stored.files]


def _serve(folder: Path) -> None:
    """Answer the request in `folder`."""
    request = read_request(folder)
    specs, inputs = read_inputs(request, folder)
    artifact = Artifact(request["backend"], Path(request["path"]), specs, tuple(request["outputs"]))
    from kokoro_nb.backends import backend

    start = time.perf_counter()
    program = backend(artifact.backend).load(artifact)
    loaded, times = time.perf_counter() - start, []
    for _ in range(request["calls"]):
        start = time.perf_counter()
        outputs = program.run(inputs)
        times.append(time.perf_counter() - start)
    np.savez(folder / OUTPUTS, *(outputs[name] for name in artifact.outputs))
    answer = {
        "loaded": loaded,
        "calls": times,
        "modules": sorted(name for name, module in sys.modules.items() if module),
    }
    (folder / ANSWER).write_text(json.dumps(answer), encoding="utf-8")


if __name__ == "__main__":
    _serve(Path(sys.argv[1]))
