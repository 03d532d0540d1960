"""What a process of its own is asked to call, as plain values in a file: an artefact, or text to audio."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.backends.base import Artifact
from kokoro_nb.backends.fresh_process import read_inputs, request_for
from kokoro_nb.backends.signature import Arrays, checked

PROGRAM = "program.pt"


def request_of(artifact: Artifact, inputs: Arrays) -> tuple[dict[str, Any], dict[str, np.ndarray], Any]:
    """Return the request to call an artefact, its inputs, and what `save_module` is to save.

    Parameters
    ----------
    artifact : Artifact
        Of a backend that writes files, or eager's own.
    inputs : mapping
        Name -> tensor or array.
    """
    about = request_for(artifact)
    arrays = checked(inputs, artifact.inputs)
    if artifact.path is not None:
        return {"kind": "artefact", "path": str(artifact.path.resolve()), **about}, arrays, None
    program = artifact.program
    more = {"declared": program.declared, "patches": program.patches, "double": program.double}
    return {"kind": "eager", **about, **more}, arrays, program.module


def save_module(module: Any, folder: Path) -> None:
    """Save what eager PyTorch runs into the folder of a request; None is nothing."""
    if module is not None:
        import torch

        torch.save(module, folder / PROGRAM)


def requested_call(request: Mapping[str, Any], folder: Path) -> Callable[[], Any]:
    """Load what the request in `folder` names, and return a function that calls it once."""
    return _KINDS[request["kind"]](request, folder)


def _artefact(request: Mapping[str, Any], folder: Path) -> Callable[[], Any]:
    from kokoro_nb.backends import backend

    specs, inputs = read_inputs(request, folder)
    artifact = Artifact(request["backend"], Path(request["path"]), specs, tuple(request["outputs"]))
    program = backend(request["backend"]).load(artifact)
    return lambda: program.run(inputs)


def _eager(request: Mapping[str, Any], folder: Path) -> Callable[[], Any]:
    import torch

    from kokoro_nb.backends.base import quietly
    from kokoro_nb.backends.eager import EagerProgram

    if request["patches"]:
        import kokoro_nb.models.patches  # noqa: F401
    with quietly():
        module = torch.load(folder / PROGRAM, weights_only=False, mmap=True)  # written by `save_module` a moment ago
    (specs, inputs), declared = read_inputs(request, folder), request["declared"]
    program = EagerProgram(module, specs, declared and tuple(declared), tuple(request["patches"]), request["double"])
    return lambda: program.run(inputs)


def _stages(request: Mapping[str, Any], _folder: Path) -> Callable[[], Any]:
    from kokoro_nb.delivery.pipeline import TwoStages

    speaker = TwoStages(request["folder"])
    return lambda: speaker.speak(request["text"])


def _model(request: Mapping[str, Any], _folder: Path) -> Callable[[], Any]:
    from kokoro_nb.benchmarks.subjects import eager_speaker
    from kokoro_nb.models.kokoro import load_model

    speak = eager_speaker(load_model(request["weights"], request["seed"]))
    return lambda: speak(request["text"])


_KINDS: Mapping[str, Callable[[Mapping[str, Any], Path], Callable[[], Any]]] = {
    "artefact": _artefact,
    "eager": _eager,
    "stages": _stages,
    "model": _model,
}
