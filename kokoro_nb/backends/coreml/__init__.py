"""Core ML: conversion and saving on any machine, prediction on macOS."""

import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from kokoro_nb.backends.artefacts import FileBackend, FileProgram, NamedArrays
from kokoro_nb.backends.base import Artifact, Program, import_failure, on_rung, quietly
from kokoro_nb.backends.coreml import conversion
from kokoro_nb.backends.exported import Exported
from kokoro_nb.errors import noted

Target = Literal["iOS16", "iOS17", "iOS18"] | None


@dataclass(frozen=True)
class CoreMlProgram(FileProgram):
    """A model loaded by Core ML; what comes out has the dtype and shape that the file gives it."""

    model: Any  # coremltools.models.MLModel
    interface: conversion.Interface

    def computed(self, arrays: NamedArrays) -> list[np.ndarray]:
        """Return the outputs: see `FileProgram`."""
        results = self.model.predict(self.interface.to_file(arrays))
        return [results[feature] for feature in self.interface.outputs]


@dataclass(frozen=True)
class CoreMl(FileBackend):
    """Core ML through `coremltools.convert`, with nothing but its documented arguments.

    Attributes
    ----------
    route : str
        ``export``: from the exported program; ``trace``: from `torch.jit.trace` of its module; ``traced program``:
        from a trace of the exported program, something that is supplied: there every size is a number, of which
        coremltools 9.0 makes none out of a trace with NumPy 2.4, and it takes LSTMs from a trace alone.
    precision : str, MixedPrecision or None
        ``float32``, float16 but for some operators, or None: coremltools' default, float16. In a float16 file weights,
        constants and every result are stored as float16; what Core ML rounds inside an operator, the file does not say
        (see `mil.rounding.Arithmetic`).
    target : str or None
        The oldest system that the file is for, such as ``iOS17``; None: coremltools' default, iOS15. From ``iOS16`` on
        the outputs of a float16 file are float16, before that they are float32.
    core_operators : bool
        Supply something on the route ``export``: decompose the program to PyTorch's core operators before it is handed
        over, of which coremltools knows some that it does not know as the model calls them.

    Notes
    -----
    Core ML knows no int64: integers are int32 inside, and one that outgrows 32 bits there wraps around unnoticed. What
    the forward computes in float64 is float32. float16 inputs are declared float32, which iOS15 needs. coremltools 9.0
    writes ``atan2(y, x)`` as ``atan(y / x)`` with corrections, in which 2e-8 is added to an x within 1e-8 of 0 (in
    float16: 6e-8, its smallest number). Out of a trace it writes an infinity in the forward as 3.4e38, and the results
    of operators are known by their modules, kinds and order alone: not all of them are.
    """

    route: conversion.Route = "export"
    precision: conversion.Precision = None
    target: Target = None
    core_operators: bool = False

    file: ClassVar[str] = "model.mlpackage"
    packages: ClassVar[tuple[str, ...]] = ("coremltools",)
    own_dtypes: ClassVar[bool] = True  # float32, float16, int32: no others come out

    def available(self) -> str | None:
        """Return None if models can be converted and saved here, else the reason why not, in one sentence."""
        writer = "coremltools.libmilstoragepython"  # of the weights
        return import_failure("coremltools", "coreml", "coremltools", writer)

    def executes(self) -> str | None:
        """Return None on macOS, elsewhere the sentence that says that only macOS has Core ML."""
        if sys.platform == "darwin":
            return None
        return "Core ML predicts on macOS only; coreml-reference runs the same file on any machine."

    def options(self) -> dict[str, Any]:
        """Return all that `coremltools.convert` is told."""
        precision = asdict(self.precision) if isinstance(self.precision, conversion.MixedPrecision) else self.precision
        told = {"route": self.route, "precision": precision, "target": self.target}
        return {**told, "core_operators": self.core_operators}

    def converted(self, exported: Exported, program: Any) -> Any:
        """Return what coremltools makes of a program that `handed_over` gave."""
        import coremltools as ct

        # the interface of iOS15 has no float16
        silent = self.route == "export" and (self.target or all(one.dtype != "float16" for one in exported.inputs))
        return ct.convert(
            program,
            convert_to="mlprogram",
            inputs=None if silent else conversion.declared_inputs(exported),
            minimum_deployment_target=self.target and getattr(ct.target, self.target),
            compute_precision=conversion.compute_precision(self.precision),
            skip_model_load=True,
        )

    def write(self, exported: Exported, path: Path, seconds: dict[str, float]) -> dict[str, str]:
        """Convert and save the model."""
        with on_rung("lowered", seconds), quietly():
            program = conversion.handed_over(exported, self.route, self.core_operators)
            try:
                model = self.converted(exported, program)
            except TypeError as error:
                noted(error, "" if self.route == "export" else conversion.reader_of_number(program, exported))
                raise
            conversion.interface(model.get_spec(), exported)  # or raise
        with on_rung("serialised", seconds), quietly():
            model.save(str(path))
        return conversion.places(model, program, exported, self.route)

    def opened(self, artifact: Artifact, path: Path) -> Program:
        """Have Core ML compile and load the model."""
        import coremltools as ct

        model = ct.models.MLModel(str(path))
        return CoreMlProgram(artifact, model, conversion.interface(model.get_spec(), artifact))
