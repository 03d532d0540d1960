"""Graphs of ONNX that no exporter here writes: a Loop, an If, a function of the file's own, and bfloat16.

Each function has the form of a writer, and needs neither module nor inputs.
"""

from pathlib import Path
from typing import Any

import numpy as np


def save_graph(path: Path, nodes: list[Any], shape: list[int], constants: dict[str, Any], **model: Any) -> Path:
    """Write nodes from the float32 input ``x`` to the output ``y``, both of one shape."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    graph = helper.make_graph(
        nodes,
        "main_graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10, **model), path)
    return path


def loop_onnx(_module: Any, _inputs: Any, folder: Path) -> Path:
    """Write a Loop of four passes."""
    from onnx import TensorProto, helper

    value, node = helper.make_tensor_value_info, helper.make_node
    body = helper.make_graph(
        [
            node("Identity", ["go"], ["goes"], name="/keep"),
            node("Mul", ["state", "half"], ["smaller"], name="/half"),
            node("Sin", ["smaller"], ["next"], name="/sin"),
        ],
        "body",
        [
            value("k", TensorProto.INT64, []),
            value("go", TensorProto.BOOL, []),
            value("state", TensorProto.FLOAT, [2, 8]),
        ],
        [value("goes", TensorProto.BOOL, []), value("next", TensorProto.FLOAT, [2, 8])],
    )
    nodes = [node("Loop", ["count", "yes", "x"], ["y"], name="/loop", body=body)]
    constants = {"count": np.int64(4), "yes": np.bool_(True), "half": np.float32(0.5)}
    return save_graph(folder / "loop.onnx", nodes, [2, 8], constants)


def branch_onnx(_module: Any, _inputs: Any, folder: Path) -> Path:
    """Write an If whose condition depends on the input."""
    from onnx import TensorProto, helper

    node, floats = helper.make_node, TensorProto.FLOAT
    branches = {
        name: helper.make_graph(
            [node(kind, ["x"], [kind], name=f"/{kind}")],
            name,
            [],
            [helper.make_tensor_value_info(kind, floats, [2, 8])],
        )
        for name, kind in (("then_branch", "Tanh"), ("else_branch", "Exp"))
    }
    nodes = [
        node("ReduceMean", ["x"], ["mean"], name="/mean", keepdims=0),
        node("Greater", ["mean", "nought"], ["loud"], name="/loud"),
        node("If", ["loud"], ["y"], name="/if", **branches),
    ]
    return save_graph(folder / "branch.onnx", nodes, [2, 8], {"nought": np.float32(0)})


def function_onnx(_module: Any, _inputs: Any, folder: Path) -> Path:
    """Write a model with a function of its own, called twice."""
    from onnx import helper

    node = helper.make_node
    inside = [node("Mul", ["a", "a"], ["square"]), node("Sqrt", ["square"], ["b"])]
    function = helper.make_function("own", "Size", ["a"], ["b"], inside, [helper.make_opsetid("", 18)])
    nodes = [
        node("Size", ["x"], ["size"], domain="own", name="/first"),
        node("Size", ["size"], ["y"], domain="own", name="/second"),
    ]
    return save_graph(folder / "function.onnx", nodes, [2, 8], {}, functions=[function])


def bfloat16_onnx(_module: Any, _inputs: Any, folder: Path) -> Path:
    """Write a model whose weights are bfloat16, cast to float32 before they are used."""
    from onnx import TensorProto, helper

    node = helper.make_node
    draw = np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32)
    nodes = [
        node("Cast", ["w"], ["short"], name="/short", to=TensorProto.BFLOAT16),
        node("Cast", ["short"], ["long"], name="/long", to=TensorProto.FLOAT),
        node("MatMul", ["x", "long"], ["product"], name="/product"),
        node("Tanh", ["product"], ["y"], name="/tanh"),
    ]
    return save_graph(folder / "bfloat16.onnx", nodes, [2, 8], {"w": draw})
