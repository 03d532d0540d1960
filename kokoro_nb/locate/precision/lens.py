"""The runs behind the precision lens: every value of the float32 file and of the float16 file, side by side.

Which operator of the float16 program is which of the float32 program is known exactly or not at all: see `matched`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
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
from kokoro_nb.traces import operators
from kokoro_nb.traces.parity import compare, of_peak

OUTPUT = "output:"
FLOATS = ("fp16", "fp32")
COPY = "_cast_fp16"  # what coremltools adds to the name of an operator that computes in float16
MOVED = ("cast", "transpose")  # operators that it moves, and names anew, after that
Counterpart = tuple[Any, str]  # an operator of the float32 program, None for an input, and the name of its result


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
    reference = _Reference(full)
    counterparts, unmatched = matched(full.program, half.program)
    rows = []

    def look(_type: str, _name: str, given: Mapping[str, Any], results: Mapping[str, np.ndarray]) -> None:
        for place, (name, value) in enumerate(results.items()):
            source = counterparts.get(name)
            if source is not None and value.dtype != bool and value.size:
                rows.append(reference.row(source, place, value, given))

    outputs = zip(reference.outputs.items(), Interpreter(half.program).run(full.arrays, look).values(), strict=True)
    compared = {name: compare(expected, value) for (name, expected), value in outputs}
    return Lens(tuple(rows), compared, unmatched)


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


class _Reference:
    """What the float32 file computes, in float32, and how far that is from float64."""

    def __init__(self, full: CoreMlFile) -> None:
        self.names, self.double = full.names, Interpreter(full.program, FLOAT64)
        self.values: dict[str, np.ndarray] = dict(full.arrays)
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

        self.double.run(full.arrays, keep)
        self.outputs = Interpreter(full.program, FLOAT32).run(full.arrays, measure)

    def row(self, source: Counterpart, place: int, value: np.ndarray, given: Mapping[str, Any]) -> OperatorPrecision:
        """Compare a result of the float16 file, of an operator that was given these values."""
        operation, name = source
        expected = self.values[name]
        # of an input, rounded, its cast is all there is
        results = [expected] if operation is None else self.double.alone(operation, given)
        whole = compare(expected, value)
        return OperatorPrecision(
            name=self.names.get(name, name),
            value=name,
            type=INPUT if operation is None else operation.op_type,
            dtype=str(value.dtype),
            shape=value.shape,
            peak=whole.peak,
            floor=self.floor.get(name, 0.0),
            error=whole.of_peak,
            local=None if results is None else of_peak(compare(results[place], value).max_error, whole.peak),
            inherited=None if results is None else compare(expected, results[place]).of_peak,
            finite=whole.finite,
            comparable=bool(np.isfinite(expected).all()),
            phase=self.phase.get(name),
            reads=() if operation is None else tuple(read(operation)),
        )


def operations(program: Any) -> Iterator[Any]:
    """Return the operators of a program's main function, in the order of execution, without its constants."""
    return (operation for operation in program.functions["main"].operations if operation.op_type != "const")


def arguments(operation: Any) -> Iterator[Any]:
    """Return the variables that an operator is computed from, constants left out."""
    for value in operation.inputs.values():
        for variable in value if isinstance(value, list | tuple) else [value]:
            if variable.op is None or variable.op.op_type != "const":
                yield variable


def read(operation: Any) -> Iterator[str]:
    """Return the names of the results and inputs that an operator is computed from.

    Constants are left out, and in place of a truth value stands what it was computed from.
    """
    for variable in arguments(operation):
        if variable.op is not None and _dtype(variable) == "bool":
            yield from read(variable.op)
        else:
            yield variable.name


def matched(full: Any, half: Any) -> tuple[dict[str, Counterpart], tuple[str, ...]]:
    """Match the results of a float16 program with those of the float32 program of the same module.

    A match has the name that coremltools gives an operator's float16 copy, the type of operator and the shapes. The
    cast of an input to float16 is matched with the input; casts from or to truth values or integers, and
    transpositions, are matched with one of the same value. Other casts between the precisions have no counterpart.

    Parameters
    ----------
    full, half : coremltools.converters.mil.Program
        As `backends.coreml` saves them.

    Returns
    -------
    dict
        Name of a result of the float16 program -> what it is a copy of.
    tuple of str
        Results that could not be matched: of these nothing can be said.
    """
    named = {operation.name: operation for operation in operations(full)}
    moves = {_move(one, one.x.name): one for one in reversed(named.values()) if one.op_type in MOVED}
    counterparts: dict[str, Counterpart] = {}
    same: dict[str, str] = {}  # a value of the float16 program -> the one of the float32 program
    unmatched: list[str] = []
    for operation in operations(half):
        results = [variable.name for variable in operation.outputs]
        read = operation.x.name if operation.op_type in MOVED else ""
        if operation.op_type == "cast" and _dtype(operation.x) in FLOATS and _dtype(operation.outputs[0]) in FLOATS:
            same[results[0]] = same.get(read, read)
            if operation.x.op is None:
                counterparts[results[0]] = None, read
            continue
        move = _move(operation, same.get(read, read)) if read else ()
        found = moves.get(move) if read else named.get(operation.name.removesuffix(COPY))
        if found is None or _kind(found) != _kind(operation):
            unmatched += results
            continue
        others = [variable.name for variable in found.outputs]
        counterparts |= {own: (found, other) for own, other in zip(results, others, strict=True)}
        same |= zip(results, others, strict=True)
    return counterparts, tuple(unmatched)


def _kind(operation: Any) -> tuple[str, list[tuple[Any, ...]]]:
    return operation.op_type, [tuple(variable.shape) for variable in operation.outputs]


def _move(operation: Any, read: str) -> tuple[Any, ...]:
    """Return what a cast or a transposition does, and to which value of the float32 program."""
    if operation.op_type == "cast":
        return read, _dtype(operation.outputs[0]) in FLOATS
    return read, tuple(operation.perm.val)


def _dtype(variable: Any) -> str:
    from coremltools.converters.mil.mil import types

    return str(types.builtin_to_string(variable.dtype))
