"""Faults that are planted in a Core ML package: its protobuf and its file of weights are changed in one place."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.studies.inspection_corpus.graph_faults import LOUDER
from kokoro_nb.studies.inspection_corpus.mil_package import MilPackage

NUMBERS = {"alpha": 3.0, "epsilon": None}


def plant_mil(healthy: Path, path: Path, kind: str, draw: np.random.Generator) -> str:
    """Write the package with a fault of this kind; return the node that has to be named, or an empty text."""
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(healthy, path)
    package = MilPackage(path)
    key = _KINDS[kind](package, draw) if kind in _KINDS else ""
    if key:
        package.save()
    return key


def _weights(package: MilPackage, draw: np.random.Generator, change: Callable[[np.ndarray], None]) -> str:
    readers = package.readers()
    places = []
    for name, value in package.held():
        array = package.array(value)
        if array is not None and array.dtype.kind == "f" and array.ndim > 1 and len(readers.get(name, ())) == 1:
            places.append((name, array))
    if not places:
        return ""
    name, array = places[int(draw.integers(len(places)))]
    change(array)
    return str(readers[name][0].outputs[0].name)


def _constant(package: MilPackage, draw: np.random.Generator) -> str:
    def louder(array: np.ndarray) -> None:
        array *= array.dtype.type(LOUDER)

    return _weights(package, draw, louder)


def _one_channel(package: MilPackage, draw: np.random.Generator) -> str:
    def turned(array: np.ndarray) -> None:
        array[int(draw.integers(len(array)))] *= -1

    return _weights(package, draw, turned)


def _attribute(package: MilPackage, draw: np.random.Generator) -> str:
    held = dict(package.held())
    places = []
    for operation in package.block.operations:
        for name in NUMBERS:
            if name in operation.inputs:
                value = held.get(operation.inputs[name].arguments[0].name)
                if value is not None and value.WhichOneof("value") == "immediateValue":
                    places.append((operation, name, value))
    if not places:
        return ""
    operation, name, value = places[int(draw.integers(len(places)))]
    tensor, factor = value.immediateValue.tensor, NUMBERS[name]
    half = tensor.WhichOneof("value") == "bytes"
    old = float(np.frombuffer(tensor.bytes.values, np.float16)[0]) if half else float(tensor.floats.values[0])
    new = 0.5 if factor is None else old * factor
    operation.inputs[name].arguments[0].name = "planted_number"
    package.put_before(operation, package.number("planted_number", new, "FLOAT16" if half else "FLOAT32"))
    return str(operation.outputs[0].name)


def _axis(package: MilPackage, draw: np.random.Generator) -> str:
    places = [
        operation
        for operation in package.block.operations
        if operation.type == "softmax" and operation.outputs[0].type.tensorType.dimensions[-2].constant.size > 1
    ]
    if not places:
        return ""
    operation = places[int(draw.integers(len(places)))]
    operation.inputs["axis"].arguments[0].name = "planted_axis"
    package.put_before(operation, package.number("planted_axis", -2, "INT32"))
    return str(operation.outputs[0].name)


def _parameter(name: str, change: Callable[[np.ndarray], np.ndarray]) -> Callable[..., str]:
    def plant(package: MilPackage, draw: np.random.Generator) -> str:
        places = []
        for operation in package.block.operations:
            if operation.type == "constexpr_affine_dequantize":
                array = package.array(operation.attributes[name])
                if array is not None and (change(array) != array).any():
                    places.append((operation, array))
        if not places:
            return ""
        operation, array = places[int(draw.integers(len(places)))]
        array[...] = change(array)
        return str(operation.outputs[0].name)

    return plant


def _inserted(kind: str) -> Callable[[MilPackage, np.random.Generator], str]:
    """Return what puts a few operations behind a float value."""

    def plant(package: MilPackage, draw: np.random.Generator) -> str:
        from coremltools.proto import MIL_pb2

        readers = package.readers()
        wanted = ("FLOAT32",) if kind == "overflowing_cast" else ("FLOAT32", "FLOAT16")
        places = [
            (operation, one, readers[one.name][0])
            for operation in package.block.operations
            if operation.type != "const" and not operation.type.startswith("constexpr")
            for one in operation.outputs
            if MIL_pb2.DataType.Name(one.type.tensorType.dataType) in wanted and one.name in readers
        ]
        if not places:
            return ""
        _, source, reader = places[int(draw.integers(len(places)))]
        source, given = type(source).FromString(source.SerializeToString()), source.name
        dtype = MIL_pb2.DataType.Name(source.type.tensorType.dataType)
        most = 3e38 if dtype == "FLOAT32" else 6e4
        made: list[Any] = [package.number("planted_most", most, dtype), package.number("planted_up", 1e6, "FLOAT32")]

        def call(name: str, kind: str, gives: str = dtype, **inputs: str) -> str:
            operation = MIL_pb2.Operation(type=kind)
            for key, one in inputs.items():
                operation.inputs[key].arguments.add().name = one
            result = operation.outputs.add()
            result.CopyFrom(source)
            result.name = f"planted_{name}"
            result.type.tensorType.dataType = MIL_pb2.DataType.Value(gives)
            holder = operation.attributes["name"]
            holder.type.tensorType.dataType = MIL_pb2.DataType.Value("STRING")
            holder.immediateValue.tensor.strings.values.append(result.name)
            made.append(operation)
            return str(result.name)

        size = call("size", "abs", x=given)
        if kind == "overflowing_cast":
            made += [package.number(f"planted_to_{bits}", f"fp{bits}", "STRING") for bits in (16, 32)]
            loud = call("loud", "add", x=size, y="planted_up")
            named = call("half", "cast", "FLOAT16", x=loud, dtype="planted_to_16")
            end = call("down", "sub", x=call("back", "cast", x=named, dtype="planted_to_32"), y="planted_up")
        else:
            named = call("inf", "mul", x=call("top", "add", x=size, y="planted_most"), y="planted_most")
            if kind == "masked":
                made.append(package.number("planted_limit", np.inf, dtype))
                mask = call("mask", "less", "BOOL", x=named, y="planted_limit")
                end = call("where", "select", cond=mask, a=named, b=given)
            else:
                end = call("add", "add", x=given, y=call("nan", "sub", x=named, y=named))
        for operation in readers[given]:
            for values in operation.inputs.values():
                for argument in values.arguments:
                    if argument.name == given:
                        argument.name = end
        package.put_before(reader, *made)
        return named

    return plant


_KINDS: dict[str, Callable[[MilPackage, np.random.Generator], str]] = {
    "constant": _constant,
    "one_channel": _one_channel,
    "attribute": _attribute,
    "axis": _axis,
    "permuted_scale": _parameter("scale", lambda array: array[::-1]),
    "zero_point": _parameter(
        "zero_point", lambda array: np.where(array > 100, array - 1, array + 1).astype(array.dtype)
    ),
    **{kind: _inserted(kind) for kind in ("overflowing_cast", "infinity_less_infinity", "masked")},
}
