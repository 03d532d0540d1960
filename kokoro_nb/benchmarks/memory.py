"""Peak memory of a program, each in a process of its own that has loaded nothing else.

Run as ``python -m kokoro_nb.benchmarks.memory FOLDER`` it is that process: it reads the request there and writes
``answer.json``.
"""

import json
import os
import pickle
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kokoro_nb.backends import backend
from kokoro_nb.backends.base import Artifact, quietly
from kokoro_nb.backends.signature import Arrays, checked
from kokoro_nb.run_apart import SAFELY, run_apart

if TYPE_CHECKING:
    from kokoro_nb.models.kokoro import Kokoro

CALLS = 2  # of a program
Load = Callable[[Path], Callable[[], Any]]  # folder of the request -> what is called
_STATUS = Path("/proc/self/status")
_LOAD, _MODULE, _REQUEST, _ANSWER = "load.pickle", "module.pt", "request.json", "answer.json"
_RUNTIMES: dict[str, tuple[str, ...]] = {  # first letters of a backend -> what is imported for it
    **{"onnxruntime": ("onnxruntime",), "executorch": ("executorch.runtime",), "tvm": ("tvm.relax",)},
    **{"coreml": ("coremltools",), "eager": ("torch", "kokoro.istftnet"), "": ("torch",)},
}


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
    arrays = checked(inputs, artifact.inputs)
    if artifact.path is None:
        return of_call(artifact.backend, partial(_module, arrays), replace(artifact.program, source=None))
    file = Artifact(artifact.backend, artifact.path.resolve(), artifact.inputs, artifact.outputs)
    return of_call(artifact.backend, partial(_file, file, arrays))


def of_speaking(text: str, folder: str | Path | None, weights: str = "", seed: int = 0) -> Memory:
    """Measure loading and speaking a text with a delivered folder's two stages, or without one with PyTorch's model."""
    if folder is None:
        return of_call("eager", partial(_model, weights, seed, text))
    return of_call("", partial(_stages, Path(folder).resolve(), text))


def eager_speaker(kokoro: "Kokoro") -> Callable[[str], np.ndarray]:
    """Return a function that speaks a text with the model in PyTorch: text -> (samples,) float32, 24 kHz."""
    from kokoro_nb.models import voices
    from kokoro_nb.models.phonemes import encode

    table = voices.load_voice(kokoro)

    def speak(text: str) -> np.ndarray:
        phonemes = encode(kokoro.model.vocab, text, "espeak")
        audio, _ = kokoro.model.forward_with_tokens(phonemes.ids, voices.style(table, phonemes.symbols), 1.0)
        return audio.numpy()

    return speak


def peak() -> float:
    """Return the most resident memory that this process has had, MB."""
    try:  # Linux: what getrusage says there includes the process that started this one, see proc(5) for VmHWM
        lines = dict(line.split(":", 1) for line in _STATUS.read_text(encoding="utf-8").splitlines())
        return int(lines["VmHWM"].split()[0]) * 1024 / 1e6
    except OSError:
        import resource

        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most / 1e6 if sys.platform == "darwin" else most * 1024 / 1e6


def of_call(runtime: str, load: Load, module: Any = None, calls: int = CALLS) -> Memory:
    """Measure importing a runtime, by the first letters of a backend's name, loading by `load`, and some calls.

    What `load` is made of is not to import what the process shall not have: it is unpickled there. `module` is what it
    finds in the folder of the request, saved by `torch.save`.
    """
    with tempfile.TemporaryDirectory() as room:
        folder = Path(room)
        (folder / _LOAD).write_bytes(pickle.dumps(load))
        if module is not None:
            import torch

            torch.save(module, folder / _MODULE)
        request = {"backend": runtime, "calls": calls}
        (folder / _REQUEST).write_text(json.dumps(request), encoding="utf-8")
        # the same copy of this package, whether it is installed or not
        found = os.pathsep.join([str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])])
        done = run_apart([*SAFELY, "-m", __name__, folder], environment={**os.environ, "PYTHONPATH": found})
        if done.status != 0:
            raise RuntimeError(f"The process that was measured ended with {done.status}: {done.stderr.strip()}")
        return Memory(**json.loads((folder / _ANSWER).read_text(encoding="utf-8")))


def _file(artifact: Artifact, inputs: dict[str, np.ndarray], _folder: Path) -> Callable[[], Any]:
    return partial(backend(artifact.backend).load(artifact).run, inputs)


def _module(inputs: dict[str, np.ndarray], folder: Path) -> Callable[[], Any]:
    import torch

    import kokoro_nb.models.patches  # noqa: F401  # those that were on may be of the model

    with quietly():
        program = torch.load(folder / _MODULE, weights_only=False, mmap=True)  # written by `of_call` a moment ago
    return partial(program.run, inputs)


def inspecting(path: Path, inputs: dict[str, np.ndarray], _folder: Path) -> Callable[[], Any]:
    """Return what inspects a file; what that needs is loaded."""
    from kokoro_nb.inspection import inspect

    return partial(inspect, path, inputs)


def _stages(delivery: Path, text: str, _folder: Path) -> Callable[[], Any]:
    from kokoro_nb.delivery.pipeline import TwoStages

    return partial(TwoStages(delivery).speak, text)


def _model(weights: str, seed: int, text: str, _folder: Path) -> Callable[[], Any]:
    from kokoro_nb.models.kokoro import load_model

    return partial(eager_speaker(load_model(weights, seed)), text)


def _serve(folder: Path) -> None:
    """Answer the request in `folder`."""
    request = json.loads((folder / _REQUEST).read_text(encoding="utf-8"))
    marks = [peak()]
    for module in next(modules for first, modules in _RUNTIMES.items() if request["backend"].startswith(first)):
        import_module(module)
    marks.append(peak())
    load: Load = pickle.loads((folder / _LOAD).read_bytes())
    call = load(folder)
    marks.append(peak())
    for _ in range(request["calls"]):
        call()
    imported, loaded, run = (mark - marks[0] for mark in (*marks[1:], peak()))
    (folder / _ANSWER).write_text(json.dumps(asdict(Memory(imported, loaded, run, peak()))), encoding="utf-8")


if __name__ == "__main__":
    _serve(Path(sys.argv[1]))
