"""What a file itself says of an operator: few bits, another constant, or the length of an example."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kokoro_nb.backends.exported import Exported
from kokoro_nb.traces.operators import CONSTANT

QUANTISED = frozenset(
    (
        *("ConvInteger", "MatMulInteger", "QLinearConv", "QLinearMatMul", "QuantizeLinear", "DequantizeLinear"),
        *("DynamicQuantizeLinear", "DynamicQuantizeMatMul", "DynamicQuantizeLSTM", "MatMulIntegerToFloat", "QGemm"),
        *("MatMulNBits", "QAttention", "QLinearAdd", "QLinearMul", "QLinearSigmoid", "QLinearConcat"),
    )
)
ROUNDED = 2e-3  # of a constant: more than rounding to float16, 5e-4, makes of it


@dataclass(frozen=True)
class FileFact:
    """What the file says of one operator.

    Attributes
    ----------
    quantised : tuple of str
        Kinds of nodes of few bits that it is computed by.
    changed : tuple of str
        Constants that are not those of the module, in words.
    frozen : tuple of str
        Lengths of an example that stand where the module has those of its inputs, in words.
    """

    quantised: tuple[str, ...]
    changed: tuple[str, ...]
    frozen: tuple[str, ...] = ()


def file_facts(model: Any, exported: Exported, places: Mapping[str, str]) -> dict[str, FileFact]:
    """Return what an ONNX file says of the operators that it computes otherwise than the module.

    Parameters
    ----------
    model : onnx.ModelProto
        The file.
    exported : Exported
        The module.
    places : mapping
        Name of an operator -> the value that holds its result.
    """
    from onnx import numpy_helper

    made = {value: node for node in model.graph.node for value in node.output if value}
    stored = {tensor.name: tensor for tensor in model.graph.initializer}
    mine = {**exported.program.state_dict, **exported.program.constants}
    specification, lengths = exported.specification, _dynamic_lengths(model, exported)
    nodes = specification.results(specification.program.graph.nodes)
    found = {}
    for operator in specification.operators:
        if operator.name not in places:
            continue
        kinds = _between(places[operator.name], {*places.values()}, made)
        changed = [
            text
            for one in operator.inputs
            if one.startswith(CONSTANT)
            and (name := one.removeprefix(CONSTANT)) in stored
            and name in mine
            and (text := _changed(name, mine[name].detach().numpy(), numpy_helper.to_array(stored[name])))
        ]
        frozen = _frozen(nodes.get(operator.name), made.get(places[operator.name]), stored, made, lengths)
        fact = FileFact(tuple(sorted(kinds & QUANTISED)), tuple(changed), tuple(frozen))
        if fact.quantised or fact.changed or fact.frozen:
            found[operator.name] = fact
    return found


def _dynamic_lengths(model: Any, exported: Exported) -> dict[int, str]:
    """Return the length of every axis of an input that the file leaves open, and which axis that is."""
    sizes = {spec.name: spec.shape for spec in exported.inputs}
    found = {}
    for value in model.graph.input:
        for axis, size in enumerate(value.type.tensor_type.shape.dim):
            if size.dim_param and axis < len(sizes.get(value.name, ())):
                found[int(sizes[value.name][axis])] = f"axis {axis} of '{value.name}'"
    return found


def _frozen(
    node: Any, made_by: Any, stored: Mapping[str, Any], made: Mapping[str, Any], lengths: Mapping[int, str]
) -> Iterator[str]:
    """Yield where a number of the module is a length that the file leaves open, and the file has another number."""
    if node is None or made_by is None or not lengths:
        return
    numbers = [one for one in getattr(node, "args", ()) if isinstance(one, int | float) and int(one) in lengths]
    theirs = [number for name in made_by.input if (number := _number(name, stored, made)) is not None]
    for number in numbers:
        if theirs and number not in theirs:
            here = f"the length of {lengths[int(number)]}, which the file leaves open"
            yield f"it has {theirs[0]:g} in the file and {number:g} in the module, {here}"


def _number(name: str, stored: Mapping[str, Any], made: Mapping[str, Any]) -> float | None:
    """Return the number that a value of the file is, if it is a constant of one element."""
    from onnx import numpy_helper

    if name in stored:
        value = numpy_helper.to_array(stored[name])
    elif name in made and made[name].op_type == "Constant" and made[name].attribute[0].name == "value":
        value = numpy_helper.to_array(made[name].attribute[0].t)
    else:
        return None
    return float(value.reshape(())) if value.size == 1 else None


def _between(value: str, known: set[str], made: Mapping[str, Any]) -> set[str]:
    """Return the kinds of the nodes from a value back to those that hold results of other operators."""
    found, pending, seen = set(), [value], {value}
    while pending:
        node = made.get(pending.pop())
        if node is None:
            continue
        found.add(node.op_type)
        for read in node.input:
            if read not in seen and read not in known:
                seen.add(read)
                pending.append(read)
    return found


def _changed(name: str, mine: np.ndarray, theirs: np.ndarray) -> str:
    """Return how a constant differs, in words; empty where it does not, by more than rounding."""
    if mine.shape != theirs.shape or mine.dtype.kind != "f" or theirs.dtype.kind != "f" or not mine.size:
        return ""
    apart = np.abs(mine.astype(np.float64) - theirs)
    far = apart > ROUNDED * np.abs(mine) + float(np.finfo(np.float16).tiny)
    if not far.any():
        return ""
    place = np.unravel_index(np.argmax(apart), apart.shape)
    count = f" at {int(far.sum())} of {mine.size} elements" if mine.size > 1 else ""
    return f"{name} is {mine[place]:.6g} in the module and {theirs[place]:.6g} in the file{count}"
