"""Core ML: conversion and saving on any machine, prediction on macOS."""

import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from kokoro_nb.backends.artefacts import FileBackend
from kokoro_nb.backends.base import Artifact, Failure, Program, Runnable, on_rung, quietly
from kokoro_nb.backends.coreml.conversion import mil_program, model_of, places
from kokoro_nb.backends.coreml.interface import Interface, interface, record
from kokoro_nb.backends.coreml.precision import MixedPrecision, Precision, compute_precision
from kokoro_nb.backends.exported import Exported, output_specs
from kokoro_nb.backends.mil.rounding import FLOAT32, Arithmetic
from kokoro_nb.backends.signature import Arrays, TensorSpec, checked
from kokoro_nb.backends.taps import UntracedProgram
from kokoro_nb.time_spent import timed

Route = Literal["export", "trace"]
Target = Literal["iOS17", "iOS18"]


@dataclass(frozen=True)
class CoreMlProgram(UntracedProgram):
    """A model loaded by Core ML."""

    model: Any  # coremltools.models.MLModel
    interface: Interface
    inputs: tuple[TensorSpec, ...]
    path: Path
    backend: str

    @timed("run")
    def run(self, inputs: Arrays) -> dict[str, np.ndarray]:
        """Run once: see `base.Program.run`.

        Raises
        ------
        InputError
            Also if an input holds integers of more than 32 bits.
        """
        arrays = self.interface.to_file(checked(inputs, self.inputs))
        with quietly():
            results = self.model.predict(arrays)
        return self.interface.from_file(results)


@dataclass(frozen=True)
class CoreMl(FileBackend):
    """Core ML through coremltools.

    Attributes
    ----------
    route : str
        ``export``: from the exported program; ``trace``: from `torch.jit.trace` of its module.
    precision : str or MixedPrecision
        What the operators are typed to compute in: ``float32``, ``float16``, or float16 but for some. In a float16 file
        weights, constants and every result are stored as float16; what Core ML rounds inside an operator, the file does
        not say (see `mil.rounding.Arithmetic`). Inputs and outputs are float32 (or int32) in all three.
    target : str
        The oldest system that the file is for: ``iOS17`` (with macOS 14) or ``iOS18`` (with macOS 15).

    Notes
    -----
    Core ML knows no int64: integers are int32 inside, and one that outgrows 32 bits there wraps around unnoticed. What
    the forward computes in float64 is float32. An output that no input reaches is a constant of the file. coremltools
    9.0 writes ``atan2(y, x)`` as ``atan(y / x)`` with corrections, in which 2e-8 is added to an x within 1e-8 of 0 (in
    float16: 6e-8, its smallest number). On the route ``trace`` it writes an infinity in the forward as 3.4e38.
    """

    route: Route = "export"
    precision: Precision = "float32"
    target: Target = "iOS17"

    file: ClassVar[str] = "model.mlpackage"
    packages: ClassVar[tuple[str, ...]] = ("coremltools",)
    form: ClassVar[str] = "MIL"

    def available(self) -> str | None:
        """Return None if models can be converted and saved here, else the reason why not, in one sentence."""
        try:
            with quietly():
                import coremltools
                import coremltools.libmilstoragepython  # noqa: F401  # writes the weights
        except (ImportError, OSError) as error:
            return f"coremltools cannot be used here ({error}); install coremltools for this platform."
        return None

    def executes(self) -> str | None:
        """Return None on macOS, elsewhere the sentence that says that only macOS has Core ML."""
        if sys.platform == "darwin":
            return None
        return "Core ML predicts on macOS only; coreml-reference runs the same file on any machine."

    def options(self) -> dict[str, Any]:
        """Return route, precision and target."""
        precision = asdict(self.precision) if isinstance(self.precision, MixedPrecision) else self.precision
        return {"route": self.route, "precision": precision, "target": self.target}

    def graph(self, exported: Exported, arithmetic: Arithmetic = FLOAT32) -> Runnable:
        """Return the MIL program before coremltools' passes and the saving: see `mil.graph.mil_graph`."""
        from kokoro_nb.backends.mil.graph import mil_graph

        return mil_graph(exported, self.route, self.target, arithmetic)

    def write(self, exported: Exported, path: Path, seconds: dict[str, float]) -> dict[str, str]:
        """Convert and save the model, the declared inputs and outputs in its metadata."""
        with on_rung("lowered", seconds), quietly():
            program = mil_program(exported, self.route, self.target)
            model = model_of(program, self.target, compute_precision(self.precision))
            record(model, exported.inputs, output_specs(exported))
        with on_rung("serialised", seconds), quietly():
            model.save(str(path))
        return places(model, exported)

    @timed("load")
    def load(self, artifact: Artifact | Failure) -> Program:
        """Have Core ML compile and load the model.

        Raises
        ------
        InputError
            Also where there is no Core ML.
        """
        artifact, path = self.loadable(artifact)
        with quietly():
            import coremltools as ct

            model = ct.models.MLModel(str(path))
        return CoreMlProgram(model, interface(model.get_spec()), artifact.inputs, path, self.name)
