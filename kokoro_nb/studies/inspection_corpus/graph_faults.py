"""Faults that are planted in a file of ONNX: each function changes a model in place, and returns where it did.

It takes the model and a generator of random numbers that draws the place, and returns the id of the node that has to be
named; an empty string where the model has no such place.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.inspection.onnx_nodes import OnnxNode, nodes_of

GraphFault = Callable[[Any, np.random.Generator], str]
LOUDER = 2.4  # what a converter that cuts 24000 at 10000 makes of a pitch
EPSILONS = ("InstanceNormalization", "LayerNormalization", "BatchNormalization", "GroupNormalization")
INTEGERS = ("uint8", "int8")


def plant_onnx(healthy: Path, path: Path, kind: str, draw: np.random.Generator) -> str:
    """Write the file with a fault of this kind; return the node that has to be named, or an empty text."""
    import onnx

    model = onnx.load(healthy)
    key = KINDS[kind](model, draw)
    if key:
        onnx.save(model, path)
    return key


def constant(model: Any, draw: np.random.Generator) -> str:
    """Make the weights of one node 2.4 times as large."""
    return _weights_changed(model, draw, lambda array: array * np.asarray(LOUDER, array.dtype))


def one_channel(model: Any, draw: np.random.Generator) -> str:
    """Turn the sign of one output channel of the weights of one node."""

    def turned(array: np.ndarray) -> np.ndarray:
        changed = array.copy()
        changed[int(draw.integers(len(array)))] *= -1
        return changed

    return _weights_changed(model, draw, turned)


def attribute(model: Any, draw: np.random.Generator) -> str:
    """Change a number that is an attribute: a slope, an epsilon, a factor."""
    changes = {"alpha": 3.0, "beta": 3.0}
    places = [
        (node, one)
        for node in nodes_of(model.graph)
        for one in node.proto.attribute
        if one.name in changes or (one.name == "epsilon" and node.proto.op_type in EPSILONS)
    ]
    if not places:
        return ""
    node, one = places[int(draw.integers(len(places)))]
    one.f = 0.5 if one.name == "epsilon" else one.f * changes[one.name]
    return node.key


def axis(model: Any, draw: np.random.Generator) -> str:
    """Have a Softmax, a normalisation or a running sum go along another axis, of which the shape does not tell."""
    shapes = _shapes(model)
    places = []
    for node in nodes_of(model.graph):
        shape = shapes.get(node.proto.input[0], ()) if node.proto.input else ()
        if node.proto.op_type in ("Softmax", "LogSoftmax") and len(shape) > 1 and shape[-2] > 1:
            places.append(node)
    if not places:
        return ""
    node = places[int(draw.integers(len(places)))]
    kept = [one for one in node.proto.attribute if one.name != "axis"]
    del node.proto.attribute[:]
    node.proto.attribute.extend(kept)
    from onnx import helper

    node.proto.attribute.append(helper.make_attribute("axis", -2))
    return node.key


def permuted_scale(model: Any, draw: np.random.Generator) -> str:
    """Turn the order of the scales of the channels of one node's integer weights."""

    def turned(array: np.ndarray) -> np.ndarray:
        return array[::-1].copy()

    return _parameter_changed(model, draw, 1, lambda array: array.size > 1 and np.ptp(array) > 0, turned)


def zero_point(model: Any, draw: np.random.Generator) -> str:
    """Move the zero point of one DequantizeLinear by one."""

    def moved(array: np.ndarray) -> np.ndarray:
        return np.where(array > 100, array - 1, array + 1).astype(array.dtype)

    return _parameter_changed(model, draw, 2, lambda array: array.dtype.name in INTEGERS, moved)


def overflowing_cast(model: Any, draw: np.random.Generator) -> str:
    """Send a float32 value, and a million with it, through float16, where that does not fit."""
    from onnx import TensorProto, helper

    def nodes(name: str, given: str) -> list[Any]:
        offset = _number(model, "planted_offset", 1e6)
        return [
            helper.make_node("Abs", [name], ["planted_size"], name="/planted/size"),
            helper.make_node("Add", ["planted_size", offset], ["planted_loud"], name="/planted/up"),
            helper.make_node("Cast", ["planted_loud"], ["planted_half"], name="/planted/half", to=TensorProto.FLOAT16),
            helper.make_node("Cast", ["planted_half"], ["planted_back"], name="/planted/back", to=TensorProto.FLOAT),
            helper.make_node("Sub", ["planted_back", offset], [given], name="/planted/down"),
        ]

    return _inserted(model, draw, nodes, "/planted/half")


def infinity_less_infinity(model: Any, draw: np.random.Generator) -> str:
    """Take an infinity from itself; it begins where it is made."""
    from onnx import helper

    def nodes(name: str, given: str) -> list[Any]:
        large = _number(model, "planted_large", 3e38)
        return [
            helper.make_node("Abs", [name], ["planted_size"], name="/planted/size"),
            helper.make_node("Add", ["planted_size", large], ["planted_top"], name="/planted/top"),
            helper.make_node("Mul", ["planted_top", large], ["planted_inf"], name="/planted/inf"),
            helper.make_node("Sub", ["planted_inf", "planted_inf"], ["planted_nan"], name="/planted/nan"),
            helper.make_node("Add", [name, "planted_nan"], [given], name="/planted/add"),
        ]

    return _inserted(model, draw, nodes, "/planted/inf")


def masked(model: Any, draw: np.random.Generator) -> str:
    """Make an infinity that a Where hides."""
    from onnx import helper

    def nodes(name: str, given: str) -> list[Any]:
        large, never = _number(model, "planted_large", 3e38), _number(model, "planted_never", np.inf)
        return [
            helper.make_node("Abs", [name], ["planted_size"], name="/planted/size"),
            helper.make_node("Add", ["planted_size", large], ["planted_top"], name="/planted/top"),
            helper.make_node("Mul", ["planted_top", large], ["planted_inf"], name="/planted/inf"),
            helper.make_node("Less", ["planted_inf", never], ["planted_mask"], name="/planted/mask"),
            helper.make_node("Where", ["planted_mask", "planted_inf", name], [given], name="/planted/where"),
        ]

    return _inserted(model, draw, nodes, "/planted/inf")


def saturation(model: Any, draw: np.random.Generator) -> str:
    """Make the range of one activation's integers sixteen times too narrow."""
    held = _constants(model)
    given = {value.name for value in model.graph.input}
    made = {name for node in model.graph.node for name in node.output} | given
    places = [
        node
        for node in nodes_of(model.graph)
        if node.proto.op_type == "QuantizeLinear" and node.proto.input[0] in made and node.proto.input[1] in held
    ]
    if not places:
        return ""
    node = places[int(draw.integers(len(places)))]
    name = node.proto.input[1]
    _replace(model, name, held[name] / np.float32(16))
    return node.key


def _weights_changed(model: Any, draw: np.random.Generator, change: Callable[[np.ndarray], np.ndarray]) -> str:
    """Change the float weights of a node that alone reads them."""
    held = _constants(model)
    readers: dict[str, list[OnnxNode]] = {}
    for node in nodes_of(model.graph):
        for name in node.reads:
            readers.setdefault(name, []).append(node)
    places = [
        name
        for name, array in held.items()
        if array.dtype.kind == "f"
        and array.ndim > 1
        and array.size > 8
        and array.any()
        and len(readers.get(name, ())) == 1
    ]
    if not places:
        return ""
    name = places[int(draw.integers(len(places)))]
    _replace(model, name, change(held[name]))
    return readers[name][0].key


def _parameter_changed(
    model: Any,
    draw: np.random.Generator,
    place: int,
    fits: Callable[[np.ndarray], bool],
    change: Callable[[np.ndarray], np.ndarray],
) -> str:
    """Give one DequantizeLinear of weights another scale or zero point of its own."""
    held = _constants(model)
    places = [
        node
        for node in nodes_of(model.graph)
        if node.proto.op_type == "DequantizeLinear"
        and len(node.proto.input) > place
        and held.get(node.proto.input[0], np.zeros(())).dtype.name in INTEGERS
        and node.proto.input[place] in held
        and fits(held[node.proto.input[place]])
    ]
    if not places:
        return ""
    from onnx import numpy_helper

    node = places[int(draw.integers(len(places)))]
    array = change(held[node.proto.input[place]])
    model.graph.initializer.append(numpy_helper.from_array(array, "planted_parameter"))
    node.proto.input[place] = "planted_parameter"
    return node.key


def _inserted(model: Any, draw: np.random.Generator, nodes: Callable[[str, str], list[Any]], named: str) -> str:
    """Put nodes behind a float32 value that another node reads."""
    types = {one.name: one.type.tensor_type.elem_type for one in _known(model)}
    read = {name for node in model.graph.node for name in node.input}
    places = [name for node in model.graph.node for name in node.output if name in read and types.get(name) == 1]
    if not places:
        return ""
    name = places[int(draw.integers(len(places)))]
    for node in model.graph.node:
        for k, one in enumerate(node.input):
            if one == name:
                node.input[k] = "planted_value"
    at = 1 + next(k for k, node in enumerate(model.graph.node) if name in node.output)
    for k, node in enumerate(nodes(name, "planted_value")):
        model.graph.node.insert(at + k, node)
    del model.graph.value_info[:]
    return named


def _number(model: Any, name: str, value: float) -> str:
    from onnx import numpy_helper

    if name not in {one.name for one in model.graph.initializer}:
        model.graph.initializer.append(numpy_helper.from_array(np.array(value, np.float32), name))
    return name


def _constants(model: Any) -> dict[str, np.ndarray]:
    from onnx import numpy_helper

    return {one.name: numpy_helper.to_array(one) for one in model.graph.initializer}


def _replace(model: Any, name: str, array: np.ndarray) -> None:
    from onnx import numpy_helper

    tensor = next(one for one in model.graph.initializer if one.name == name)
    tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(array), name))


def _known(model: Any) -> Iterator[Any]:
    """Yield every value of which the type can be told."""
    import onnx

    graph = onnx.shape_inference.infer_shapes(model).graph
    for group in (graph.input, graph.value_info, graph.output):
        yield from group


def _shapes(model: Any) -> dict[str, tuple[int, ...]]:
    return {
        one.name: tuple(dimension.dim_value for dimension in one.type.tensor_type.shape.dim) for one in _known(model)
    }


KINDS: dict[str, GraphFault] = {
    one.__name__: one
    for one in (
        *(constant, one_channel, attribute, axis, permuted_scale, zero_point),
        *(overflowing_cast, infinity_less_infinity, masked, saturation),
    )
}
