"""A client's programs of each form, run here: ONNX Runtime, ExecuTorch, and the reference executor of Core ML files."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.backends.base import quietly
from kokoro_nb.delivery.clients.model_schema import METHOD
from kokoro_nb.errors import InputError

KINDS = {65568: "float32", 65552: "float16", 131104: "int32", 65600: "float64"}  # of Core ML's ArrayFeatureType


class OnnxSession:
    """An ONNX model, given as its path or its bytes."""

    def __init__(self, model: Path | bytes):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        self._session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self.inputs = {value.name: value.type for value in self._session.get_inputs()}
        self.outputs = [value.name for value in self._session.get_outputs()]

    def __call__(self, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Run once; what comes out is in the order of the file."""
        return dict(zip(self.outputs, self._session.run(None, dict(values)), strict=True))


class PteProgram:
    """A ``.pte`` file on ExecuTorch's runtime.

    Parameters
    ----------
    path : Path

    Raises
    ------
    InputError
        If the runtime does not load it.
    """

    def __init__(self, path: Path):
        with quietly():
            from executorch.runtime import Runtime

            try:
                self._program = Runtime.get().load_program(str(path))
                self._forward = self._program.load_method("forward")
            except (RuntimeError, ValueError, OSError) as error:
                raise InputError(f"ExecuTorch does not load {path.name} ({error}).") from error
        if self._forward is None:
            raise InputError(f"{path.name} has no method forward.")

    def schema(self) -> Any:
        """Return the schema of the file, as text where that is no JSON; None if it has none."""
        if METHOD not in self._program.method_names:
            return None
        with quietly():
            (text,) = self._program.load_method(METHOD).execute([])
        try:
            return json.loads(text)
        except (TypeError, ValueError):
            return text

    def __call__(self, *values: np.ndarray) -> list[np.ndarray]:
        """Run the method ``forward`` once.

        Raises
        ------
        InputError
            If the program refuses what it is given.
        """
        import torch

        try:
            with quietly():
                made = self._forward.execute([torch.from_numpy(np.ascontiguousarray(value)) for value in values])
        except RuntimeError as error:
            shapes = ", ".join(str(value.shape) for value in values)
            raise InputError(f"The program refuses inputs of {shapes} ({error}).") from error
        return [np.array(value.numpy()) for value in made]


class StageProgram:
    """A ``.mlpackage``, executed operator by operator.

    Parameters
    ----------
    path : Path

    Raises
    ------
    InputError
        If it cannot be read.
    """

    def __init__(self, path: Path):
        with quietly():
            from kokoro_nb.backends.mil import load_program
            from kokoro_nb.backends.mil.interpreter import Interpreter

            saved = load_program(path)
            self._interpreter = Interpreter(saved.program)
        self.description = saved.spec.description
        kinds = ((one.name, one.type.multiArrayType.dataType) for one in self.description.input)
        self._dtypes = {name: KINDS.get(kind, "float32") for name, kind in kinds}

    def __call__(self, values: Mapping[str, np.ndarray], observe: Any = None) -> dict[str, np.ndarray]:
        """Run once on the inputs among `values`, each converted to the dtype that the file declares.

        `observe` is that of `Interpreter.run`.
        """
        given = {}
        for name in self._interpreter.inputs:
            if name not in values:
                raise InputError(f"The program wants '{name}', which no stage before it gives.")
            given[name] = np.asarray(values[name]).astype(self._dtypes[name])
        return self._interpreter.run(given, observe)
