"""A client's programs of several stages, run here: by ExecuTorch, and by the reference executor of Core ML files.

And what an ExecuTorch program declares of its sizes: the method ``get_model_schema`` of react-native-executorch. A
``.pte`` file itself gives the largest size of each axis alone. The client compares this schema with its own when it
loads the file: dtypes and ranks, one range for all axes that share a size, and the constraints, none too few and none
too many.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.backends.base import quietly
from kokoro_nb.delivery.clients.client_contract import ClientContract, Ranges, Signature, TensorRule
from kokoro_nb.errors import InputError
from kokoro_nb.models.architecture import SAMPLES_PER_FRAME

KINDS = {65568: "float32", 65552: "float16", 131104: "int32", 65600: "float64"}  # of Core ML's ArrayFeatureType


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


METHOD = "get_model_schema"


def model_schema(signature: Signature, ranges: Ranges) -> dict[str, Any]:
    """Return the schema of a program's method ``forward``.

    Parameters
    ----------
    signature, ranges
        See `client_contract`.
    """
    inputs, outputs = ([_tensor(one, ranges) for one in rules] for rules in signature)
    axes = _axes(signature)
    constraints: list[dict[str, Any]] = [{"kind": "equality", "dims": each} for each in axes.values() if len(each) > 1]
    if "samples" in axes:
        sizes = {"dimLhs": axes["samples"][0], "dimRhs": axes["frames"][0]}
        constraints.append({"kind": "linear", **sizes, "coefficients": [SAMPLES_PER_FRAME, 0]})
    return {"forward": {"inputs": inputs, "outputs": outputs, "runtimeConstraints": constraints}}


def _tensor(rule: TensorRule, ranges: Ranges) -> dict[str, Any]:
    bounds = {axis: dict(zip(("min", "max", "step"), each, strict=True)) for axis, each in ranges.items()}
    shape = [
        {"kind": "range", "range": bounds[axis]} if isinstance(axis, str) else {"kind": "constant", "value": axis}
        for axis in rule.shape
    ]
    return {"kind": "Tensor", "dtype": rule.dtype, "shape": shape}


def _axes(signature: Signature) -> dict[str, list[dict[str, Any]]]:
    """Return where each axis that the text decides stands: on which side, in which tensor, at which place."""
    found: dict[str, list[dict[str, Any]]] = {}
    for side, rules in zip(("input", "output"), signature, strict=True):
        for number, rule in enumerate(rules):
            for place, axis in enumerate(rule.shape):
                if isinstance(axis, str):
                    found.setdefault(axis, []).append({"paramSide": side, "tensorIdx": number, "dimIdx": place})
    return found


def schema_faults(schema: Any, signature: Signature, contract: ClientContract) -> Iterator[tuple[str, str, str]]:
    """Yield what a client refuses in a schema: the kind of fault, what it expects, what it finds.

    Parameters
    ----------
    schema : any
        Of the file, read from JSON.
    signature : tuple
        What the client expects of the program.
    contract : ClientContract
        Whose `ranges` say how much room the client counts on: a smaller range is no fault for the loader, but cuts
        texts that the contract promises.
    """
    forward, axes = schema.get("forward") if isinstance(schema, dict) else None, _axes(signature)
    if not isinstance(forward, dict) or not {"inputs", "outputs", "runtimeConstraints"} <= forward.keys():
        yield "schema form", "forward with inputs, outputs and runtimeConstraints", str(schema)[:60]
        return
    ranges = dict(contract.ranges)
    for axis, (first, *_) in axes.items():
        with suppress(LookupError, TypeError):  # which is named below
            side, tensor, place = first.values()
            least, most, step = map(forward[f"{side}s"][tensor]["shape"][place]["range"].get, ("min", "max", "step"))
            if least > ranges[axis][0] or most < ranges[axis][1]:
                yield "schema range", "{} {} to {}".format(axis, *ranges[axis]), f"{least} to {most}"
            ranges[axis] = least, most, step
    wanted = model_schema(signature, ranges)["forward"]
    for side in ("inputs", "outputs"):
        if len(forward[side]) != len(wanted[side]):
            yield "schema form", f"{len(wanted[side])} {side}", str(len(forward[side]))
            continue
        for number, (own, declared) in enumerate(zip(wanted[side], forward[side], strict=True)):
            yield from _tensor_faults(own, declared, f"{side[:-1]} {number}")
    stated, held = ([*map(_canonical, each["runtimeConstraints"])] for each in (wanted, forward))
    yield from (("schema constraints", one, "not declared") for one in stated if one not in held)
    yield from (("schema constraints", "none but its own", one) for one in held if one not in stated)


def _tensor_faults(own: dict[str, Any], declared: Any, where: str) -> Iterator[tuple[str, str, str]]:
    if not isinstance(declared, dict) or (declared.get("kind"), declared.get("dtype")) != ("Tensor", own["dtype"]):
        found = declared.get("dtype", declared.get("kind")) if isinstance(declared, dict) else declared
        yield "schema dtype", f"{where} {own['dtype']}", str(found)
        return
    shape = declared.get("shape", ())
    if len(shape) != len(own["shape"]):
        yield "schema form", f"{where} of {len(own['shape'])} axes", str(len(shape))
        return
    for axis, size in zip(own["shape"], shape, strict=True):
        if any(size.get(key) != value for key, value in axis.items()):
            rule = "schema range" if size.get("kind") == axis["kind"] == "range" else "schema size"
            yield rule, f"{where} {_canonical(axis)}", _canonical(size)


def _canonical(constraint: Any) -> str:
    """Return a constraint as JSON in which the order of keys, and of an equality's places, does not count."""
    if isinstance(constraint, dict) and isinstance(constraint.get("dims"), list):
        constraint = {**constraint, "dims": sorted(constraint["dims"], key=_canonical)}
    return json.dumps(constraint, sort_keys=True)
