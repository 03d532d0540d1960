"""What an ExecuTorch program declares of its sizes: the method ``get_model_schema`` of react-native-executorch.

A ``.pte`` file itself gives the largest size of each axis alone. The client compares this schema with its own when it
loads the file: dtypes and ranks, one range for all axes that share a size, and the constraints, none too few and none
too many.
"""

import json
from collections.abc import Iterator
from typing import Any

from kokoro_nb.delivery.clients.client_contract import ClientContract, Ranges, Signature, TensorRule
from kokoro_nb.models.architecture import SAMPLES_PER_FRAME

METHOD = "get_model_schema"
Reference = tuple[str, int, int]  # input or output, number of the tensor, number of the axis


def model_schema(signature: Signature, ranges: Ranges) -> dict[str, Any]:
    """Return the schema of a program's method ``forward``.

    Parameters
    ----------
    signature, ranges
        See `client_contract`.
    """
    inputs, outputs = signature
    tensors = {"inputs": [_tensor(one, ranges) for one in inputs], "outputs": [_tensor(one, ranges) for one in outputs]}
    return {"forward": {**tensors, "runtimeConstraints": _constraints(signature)}}


def _tensor(rule: TensorRule, ranges: Ranges) -> dict[str, Any]:
    shape: list[dict[str, Any]] = []
    for axis in rule.shape:
        if isinstance(axis, str):
            shape.append({"kind": "range", "range": dict(zip(("min", "max", "step"), ranges[axis], strict=True))})
        else:
            shape.append({"kind": "constant", "value": axis})
    return {"kind": "Tensor", "dtype": rule.dtype, "shape": shape}


def _axes(signature: Signature) -> dict[str, list[Reference]]:
    """Return where each axis that the text decides stands."""
    found: dict[str, list[Reference]] = {}
    for side, rules in zip(("input", "output"), signature, strict=True):
        for number, rule in enumerate(rules):
            for place, axis in enumerate(rule.shape):
                if isinstance(axis, str):
                    found.setdefault(axis, []).append((side, number, place))
    return found


def _constraints(signature: Signature) -> list[dict[str, Any]]:
    axes = _axes(signature)
    made: list[dict[str, Any]] = [
        {"kind": "equality", "dims": [_reference(*place) for place in places]}
        for places in axes.values()
        if len(places) > 1
    ]
    if "samples" in axes:
        sizes = {"dimLhs": _reference(*axes["samples"][0]), "dimRhs": _reference(*axes["frames"][0])}
        made.append({"kind": "linear", **sizes, "coefficients": [SAMPLES_PER_FRAME, 0]})
    return made


def _reference(side: str, tensor: int, axis: int) -> dict[str, Any]:
    return {"paramSide": side, "tensorIdx": tensor, "dimIdx": axis}


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
    forward = schema.get("forward") if isinstance(schema, dict) else None
    if not isinstance(forward, dict) or not {"inputs", "outputs", "runtimeConstraints"} <= forward.keys():
        yield "schema form", "forward with inputs, outputs and runtimeConstraints", str(schema)[:60]
        return
    bound: dict[str, Any] = {}
    for side, rules in zip(("inputs", "outputs"), signature, strict=True):
        if len(forward[side]) != len(rules):
            yield "schema form", f"{len(rules)} {side}", str(len(forward[side]))
            continue
        for number, (declared, rule) in enumerate(zip(forward[side], rules, strict=True)):
            yield from _tensor_faults(declared, rule, f"{side[:-1]} {number}", bound)
    for axis, declared in bound.items():
        least, most, _ = contract.ranges[axis]
        if declared.get("min", 0) > least or declared.get("max", 0) < most:
            yield "schema range", f"{axis} {least} to {most}", f"{declared.get('min')} to {declared.get('max')}"
    wanted, held = ([*map(_canonical, each)] for each in (_constraints(signature), forward["runtimeConstraints"]))
    for one in wanted:
        if one not in held:
            yield "schema constraints", one, "not declared"
    for one in held:
        if one not in wanted:
            yield "schema constraints", "none but its own", one


def _tensor_faults(
    declared: Any, rule: TensorRule, where: str, bound: dict[str, Any]
) -> Iterator[tuple[str, str, str]]:
    if not isinstance(declared, dict) or declared.get("kind") != "Tensor" or declared.get("dtype") != rule.dtype:
        found = declared.get("dtype", declared.get("kind")) if isinstance(declared, dict) else declared
        yield "schema dtype", f"{where} {rule.dtype}", str(found)
        return
    if len(declared.get("shape", ())) != len(rule.shape):
        yield "schema form", f"{where} of {len(rule.shape)} axes", str(len(declared.get("shape", ())))
        return
    for axis, size in zip(rule.shape, declared["shape"], strict=True):
        value, kind = size.get("value"), size.get("kind")
        if isinstance(axis, int) and (kind, value) != ("constant", axis):
            yield "schema size", f"{where} {axis}", f"{kind} {value if kind == 'constant' else size.get('range')}"
        elif isinstance(axis, str) and kind != "range":
            yield "schema size", f"{where} a range of {axis}", f"{kind} {value}"
        elif isinstance(axis, str) and bound.setdefault(axis, size["range"]) != size["range"]:
            yield "schema range", f"{where} {bound[axis]} as before", str(size["range"])


def _canonical(constraint: Any) -> str:
    """Return a constraint as JSON in which the order of keys, and of an equality's places, does not count."""
    if isinstance(constraint, dict) and isinstance(constraint.get("dims"), list):
        constraint = {**constraint, "dims": sorted(constraint["dims"], key=_canonical)}
    return json.dumps(constraint, sort_keys=True)
