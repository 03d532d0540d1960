"""The runs behind the precision lens: every value of the float32 file and of the float16 file, side by side."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.backends.base import Failure
from kokoro_nb.backends.coreml import CoreMl
from kokoro_nb.backends.coreml.conversion import Precision, interface
from kokoro_nb.backends.exported import Exported, as_exported
from kokoro_nb.backends.mil.interpreter import Interpreter
from kokoro_nb.backends.mil.rounding import FLOAT32, FLOAT64
from kokoro_nb.backends.mil.saved_program import load_program
from kokoro_nb.backends.signature import Arrays, checked
from kokoro_nb.backends.taps import read_taps
from kokoro_nb.errors import InputError
from kokoro_nb.locate.precision.degradation import INPUT, PHASES, Lens, OperatorPrecision
from kokoro_nb.locate.precision.matching import Counterpart, arguments, matched, operations, read
from kokoro_nb.traces import operators
from kokoro_nb.traces.parity import compare

OUTPUT = "output:"


def lens(
    module: Any,
    inputs: Arrays,
    folder: str | Path | None = None,
    precision: Precision = None,
) -> Lens:
    """Convert a module to float32 and to `precision`, and compare the two files operator by operator.

    Parameters
    ----------
    module : torch.nn.Module or Exported
        The module, patched as it is to be exported.
    inputs : mapping
        Name of a parameter of its forward -> tensor. The findings hold for these values.
    folder : path, optional
        Where artefacts are kept.
    precision : MixedPrecision, optional
        What `keep_float32.repair` found; coremltools' default, float16, without.

    Raises
    ------
    InputError
        If the module cannot be converted.
    """
    full = converted(module, inputs, folder)
    half = converted(full.exported, inputs, folder, precision)
    return examine(full.program, half.program, full.arrays, full.names)


@dataclass(frozen=True)
class CoreMlFile:
    """A module as a Core ML file.

    Attributes
    ----------
    exported : Exported
        The module.
    program : coremltools.converters.mil.Program
        The file, read back.
    arrays : dict
        The inputs as the file takes them.
    names : dict
        Name of a result in the file -> name of the eager operator: see `OperatorPrecision.name`.
    """

    exported: Exported
    program: Any
    arrays: dict[str, np.ndarray]
    names: dict[str, str]


def converted(
    module: Any, inputs: Arrays, folder: str | Path | None = None, precision: Precision = "float32"
) -> CoreMlFile:
    """Convert a module, on the route ``export``, or take it from the cache.

    Raises
    ------
    InputError
        If it cannot be converted.
    """
    exported = as_exported(module, inputs, "coreml")
    name = "coreml-float32" if precision == "float32" else "coreml"
    made = CoreMl(name, precision=precision).export(exported, inputs, folder)
    if isinstance(exported, Failure) or isinstance(made, Failure):
        raise InputError(f"There is nothing to compare, for {made}")
    assert made.path is not None
    saved = load_program(made.path)
    arrays = interface(saved.spec, made).to_file(checked(inputs, exported.inputs))
    places = read_taps(made.folder).places
    return CoreMlFile(exported, saved.program, arrays, _names(saved.program, places))


def _names(program: Any, places: Mapping[str, str]) -> dict[str, str]:
    """Return the name of the eager operator for each result and input of a program."""
    own = {value: name for name, value in places.items()}
    goes_into: dict[str, str] = {}
    names: dict[str, str] = {}
    for operation in reversed(list(operations(program))):
        for variable in operation.outputs:
            names[variable.name] = own.get(variable.name) or goes_into.get(variable.name) or OUTPUT + variable.name
        goes_into |= {one.name: names[operation.outputs[0].name] for one in arguments(operation)}
    return names | {name: operators.INPUT + name for name in program.functions["main"].inputs}


def examine(
    full: Any,
    half: Any,
    inputs: Mapping[str, np.ndarray],
    names: Mapping[str, str] | None = None,
) -> Lens:
    """Compare a float16 program with the float32 program of the same module, result by result.

    Parameters
    ----------
    full, half : coremltools.converters.mil.Program
        The two, as `backends.coreml` saves them.
    inputs : mapping
        Array of each input, by the name and in the dtype that the programs have.
    names : mapping, optional
        Name of a result -> name of the eager operator; without it results go by their own names.
    """
    reference = _Reference(full, inputs)
    matching = matched(full, half)
    rows = []

    def look(_type: str, _name: str, given: Mapping[str, Any], results: Mapping[str, np.ndarray]) -> None:
        for place, (name, value) in enumerate(results.items()):
            source = matching.counterparts.get(name)
            if source is not None and value.dtype != bool and value.size:
                rows.append(_row(reference, source, place, value, given, names or {}))

    outputs = zip(reference.outputs.items(), Interpreter(half).run(inputs, look).values(), strict=True)
    compared = {name: compare(expected, value) for (name, expected), value in outputs}
    return Lens(tuple(rows), compared, matching.unmatched)


class _Reference:
    """What the float32 program computes, in float32, and how far that is from float64."""

    def __init__(self, program: Any, inputs: Mapping[str, np.ndarray]) -> None:
        self.inputs = inputs
        self.double = Interpreter(program, FLOAT64)
        self.values: dict[str, np.ndarray] = {}
        self.floor: dict[str, float] = {}
        self.phase: dict[str, float] = {}
        doubles: dict[str, np.ndarray] = {}

        def keep(_type: str, _name: str, _given: Any, results: Mapping[str, np.ndarray]) -> None:
            doubles.update({name: value for name, value in results.items() if value.dtype != bool})

        def measure(kind: str, _name: str, given: Mapping[str, Any], results: Mapping[str, np.ndarray]) -> None:
            for name, value in results.items():
                if value.dtype != bool and value.size:
                    self.values[name] = value
                    self.floor[name] = compare(doubles.pop(name), value).of_peak
                    if kind in PHASES:
                        self.phase[name] = float(np.abs(given["x"]).max())

        self.double.run(inputs, keep)
        self.outputs = Interpreter(program, FLOAT32).run(inputs, measure)


def _row(
    reference: _Reference,
    source: Counterpart,
    place: int,
    value: np.ndarray,
    given: Mapping[str, Any],
    names: Mapping[str, str],
) -> OperatorPrecision:
    name, operation = source.result, source.operation
    results: list[np.ndarray] | None
    if operation is None:  # an input, rounded: its cast is all there is
        expected, results = reference.inputs[name], [reference.inputs[name]]
    else:
        expected, results = reference.values[name], reference.double.alone(operation, given)
    whole = compare(expected, value)
    alone = None if results is None else compare(results[place], value)
    return OperatorPrecision(
        name=names.get(name, name),
        value=name,
        type=INPUT if operation is None else operation.op_type,
        dtype=str(value.dtype),
        shape=value.shape,
        peak=whole.peak,
        floor=reference.floor.get(name, 0.0),
        error=whole.of_peak,
        local=None if alone is None else replace(alone, peak=whole.peak).of_peak,
        inherited=None if results is None else compare(expected, results[place]).of_peak,
        finite=whole.finite,
        comparable=bool(np.isfinite(expected).all()),
        phase=reference.phase.get(name),
        reads=() if operation is None else tuple(read(operation)),
    )
