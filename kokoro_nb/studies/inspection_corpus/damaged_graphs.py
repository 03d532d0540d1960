"""ONNX graphs that no runtime can be expected to run: what they name is missing, contradicts itself, or has no end.

Each function takes the path of a healthy file and a number, and returns the path to inspect.
"""

from pathlib import Path
from typing import Any

import numpy as np

HUGE = 2**40  # elements


def weights_missing(path: Path, number: int) -> Path:
    """Have the weights beside the file, and take them away."""
    _beside(path).unlink()
    return path


def weights_shorter(path: Path, number: int) -> Path:
    """Have the weights beside the file, and cut them off."""
    beside = _beside(path)
    beside.write_bytes(beside.read_bytes()[:100])
    return path


def weights_elsewhere(path: Path, number: int) -> Path:
    """Have the file read what lies outside of its folder."""
    _beside(path)
    model = _read(path)
    for tensor in model.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = "/etc/passwd"
    return _write(path, model)


def unknown_operator(path: Path, number: int) -> Path:
    """Name an operator that there is not."""
    model = _read(path)
    model.graph.node[-1].op_type = "Frobnicate"
    return _write(path, model)


def unknown_domain(path: Path, number: int) -> Path:
    """Name a domain that nobody knows."""
    model = _read(path)
    model.graph.node[-1].domain = "com.nobody"
    model.opset_import.add(domain="com.nobody", version=1)
    return _write(path, model)


def unknown_opset(path: Path, number: int) -> Path:
    """Want operators of a version that is not written yet, or never was."""
    model = _read(path)
    model.opset_import[0].version = (9999, -3)[number]
    return _write(path, model)


def cyclic_graph(path: Path, number: int) -> Path:
    """Have the first node read what the last one gives."""
    model = _read(path)
    model.graph.node[0].input[0] = model.graph.node[-1].output[0]
    return _write(path, model)


def nan_constants(path: Path, number: int) -> Path:
    """Fill every weight with NaN."""
    from onnx import numpy_helper

    model = _read(path)
    for tensor in model.graph.initializer:
        array = numpy_helper.to_array(tensor)
        if array.dtype.kind == "f":
            tensor.CopyFrom(numpy_helper.from_array(np.full_like(array, np.nan), tensor.name))
    return _write(path, model)


def given_twice(path: Path, number: int) -> Path:
    """Have two nodes give a value of the same name."""
    model = _read(path)
    model.graph.node[-1].output[0] = model.graph.node[0].output[0]
    return _write(path, model)


def contradicting_types(path: Path, number: int) -> Path:
    """State another type than the nodes give: of the output, or of the input."""
    model = _read(path)
    value = (model.graph.output, model.graph.input)[number][0]
    value.type.tensor_type.elem_type = (6, 9)[number]  # INT32, BOOL
    return _write(path, model)


def contradicting_shapes(path: Path, number: int) -> Path:
    """Give a weight another shape with as many elements."""
    model = _read(path)
    tensor = next(one for one in model.graph.initializer if len(one.dims) > 1)
    tensor.dims[:] = [int(np.prod(tensor.dims))]
    return _write(path, model)


def weight_without_end(path: Path, number: int) -> Path:
    """Say of a weight that it has 2**40 elements: of one that is stored in full, or of a sparse one."""
    from onnx import helper, numpy_helper

    model = _read(path)
    tensor = model.graph.initializer[0]
    if number == 0:
        tensor.dims[:] = [HUGE]
        return _write(path, model)
    array = numpy_helper.to_array(tensor).reshape(-1)[:4]
    values = numpy_helper.from_array(array, tensor.name)
    places = numpy_helper.from_array(np.arange(4, dtype=np.int64), "places")
    del model.graph.initializer[0]
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, [HUGE]))
    return _write(path, model)


def input_without_end(path: Path, number: int) -> Path:
    """Want an input of 2**40 elements."""
    return _one(path, [("Abs", ["x"], {})], shape=[1, HUGE])


def shape_without_end(path: Path, number: int) -> Path:
    """Make 2**40 elements out of a few: by ConstantOfShape, Expand, Tile, Range, a padded, or a random one."""
    from onnx import helper

    size = np.array([HUGE], np.int64)
    chains: tuple[tuple[list[tuple[str, list[str], dict[str, Any]]], dict[str, Any]], ...] = (
        ([("ConstantOfShape", ["size"], {})], {"size": size}),
        ([("Expand", ["x", "size"], {})], {"size": np.array([HUGE, 4], np.int64)}),
        ([("Tile", ["x", "times"], {})], {"times": np.array([HUGE, 1], np.int64)}),
        ([("Range", ["zero", "end", "one"], {})], {"zero": np.int64(0), "end": np.int64(HUGE), "one": np.int64(1)}),
        ([("Pad", ["x", "pads"], {})], {"pads": np.array([0, 0, 0, HUGE], np.int64)}),
        ([("RandomNormal", [], {"shape": [HUGE]})], {}),
        (
            [("Constant", [], {"value": helper.make_tensor("c", 1, [1, 1], [1.0])}), ("Expand", ["v0", "size"], {})],
            {"size": np.array([2**16, 2**16], np.int64)},
        ),
    )
    return _one(path, *chains[number])


def endless_loop(path: Path, number: int) -> Path:
    """Turn round and round: a Loop without a count that always goes on, or one of 2**62 passes."""
    from onnx import helper

    value = helper.make_tensor_value_info
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["goes"]), helper.make_node("Sin", ["state"], ["next"])],
        "body",
        [value("k", 7, []), value("go", 9, []), value("state", 1, [2, 4])],
        [value("goes", 9, []), value("next", 1, [2, 4])],
    )
    constants = {"yes": np.bool_(True)} if number == 0 else {"yes": np.bool_(True), "count": np.int64(2**62)}
    return _one(path, [("Loop", ["count" if number else "", "yes", "x"], {"body": body})], constants)


def nested_deep(path: Path, number: int) -> Path:
    """Put one If into another: in both branches, which doubles the file ten times, or in one, 28 deep."""
    from onnx import helper

    value = helper.make_tensor_value_info
    flat = helper.make_graph([helper.make_node("Abs", ["x"], ["deep"])], "b", [], [value("deep", 1, [2, 4])])
    body = flat
    for k in range((10, 28)[number]):
        other = flat if number else body
        node = helper.make_node("If", ["yes"], [f"d{k}"], then_branch=body, else_branch=other)
        body = helper.make_graph([node], "b", [], [value(f"d{k}", 1, [2, 4])])
    return _one(path, [("If", ["yes"], {"then_branch": body, "else_branch": body})], {"yes": np.bool_(True)})


def function_of_itself(path: Path, number: int) -> Path:
    """Have a function call itself."""
    import onnx
    from onnx import helper

    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    nodes = [helper.make_node("Round", ["a"], ["b"], domain="own")]
    function = helper.make_function("own", "Round", ["a"], ["b"], nodes, opsets)
    _one(path, [("Round", ["x"], {"domain": "own"})])
    model = onnx.load(path)
    model.functions.append(function)
    model.opset_import.add(domain="own", version=1)
    return _write(path, model)


def _one(
    path: Path,
    chain: list[tuple[str, list[str], dict[str, Any]]],
    constants: dict[str, Any] | None = None,
    shape: list[int] | None = None,
) -> Path:
    """Write a graph of these nodes, whose values are v0, v1, ...; the last one is the output."""
    from onnx import helper, numpy_helper

    nodes = [
        helper.make_node(kind, reads, [f"v{k}"], name=f"/{k}/{kind}", **more)
        for k, (kind, reads, more) in enumerate(chain)
    ]
    last = f"v{len(nodes) - 1}"
    number = 7 if chain[-1][0] == "Range" else 1
    graph = helper.make_graph(
        [*nodes, helper.make_node("ReduceMax", [last], ["y"], name="/max", keepdims=0)],
        "main_graph",
        [helper.make_tensor_value_info("x", 1, shape or [2, 4])],
        [helper.make_tensor_value_info("y", number, [])],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in (constants or {}).items()],
    )
    return _write(path, helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10))


def _beside(path: Path) -> Path:
    """Move the weights into a file beside it; return that."""
    import onnx

    onnx.save(_read(path), path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    return path.with_name("weights.bin")


def _read(path: Path) -> Any:
    import onnx

    return onnx.load(path, load_external_data=False)


def _write(path: Path, model: Any) -> Path:
    path.write_bytes(model.SerializeToString())
    return path
