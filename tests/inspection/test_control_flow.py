"""Loop and If are judged as nodes; what lies inside of them is not judged node by node."""

import numpy as np
from onnx import TensorProto, helper

import kokoro_nb as nb


def test_a_loop_and_a_branch_are_judged_as_nodes(save, node):
    value = helper.make_tensor_value_info
    body = helper.make_graph(
        [
            node("Identity", ["go"], ["goes"], name="/keep"),
            node("Mul", ["state", "two"], ["double"], name="/double"),
            node("Sin", ["double"], ["next"], name="/sin"),
        ],
        "body",
        [
            value("k", TensorProto.INT64, []),
            value("go", TensorProto.BOOL, []),
            value("state", TensorProto.FLOAT, [1, 8]),
        ],
        [value("goes", TensorProto.BOOL, []), value("next", TensorProto.FLOAT, [1, 8])],
    )
    branch = helper.make_graph(
        [node("Exp", ["last"], ["taken"], name="/exp")], "then", [], [value("taken", TensorProto.FLOAT, [1, 8])]
    )
    other = helper.make_graph(
        [node("Neg", ["last"], ["left"], name="/neg")], "else", [], [value("left", TensorProto.FLOAT, [1, 8])]
    )
    nodes = [
        node("Loop", ["count", "yes", "x"], ["last"], name="/loop", body=body),
        node("If", ["yes"], ["y"], name="/if", then_branch=branch, else_branch=other),
    ]
    constants = {"count": np.int64(4), "yes": np.bool_(True), "two": np.float32(2)}
    loop = save(nodes, {"x": [1, 8]}, ["y"], constants)
    report = nb.inspect(loop)
    assert [(one.key, one.verdict) for one in report.judgements] == [("/loop", "pass"), ("/if", "pass")]
    assert "The nodes inside of /loop, /if were not judged one by one." in report.notes
