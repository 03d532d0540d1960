"""Loop and If are judged as nodes; what lies inside of them is not judged node by node."""

import numpy as np
import pytest
from onnx import TensorProto, helper

import kokoro_nb as nb


def written(save, node, factor=2.0, wave="Sin", **about):
    """Write a loop of four passes that takes the sine of twice its state, and a branch that is taken."""
    value = helper.make_tensor_value_info
    state = [value("go", TensorProto.BOOL, []), value("state", TensorProto.FLOAT, [1, 8])]
    two = helper.make_tensor("value", TensorProto.FLOAT, [], [factor])
    steps = [node("Identity", ["go"], ["goes"], name="/keep"), node("Constant", [], ["two"], value=two)]
    steps += [node("Mul", ["state", "two"], ["double"], name="/double"), node(wave, ["double"], ["next"], name="/sin")]
    ends = [value("goes", TensorProto.BOOL, []), value("next", TensorProto.FLOAT, [1, 8])]
    body = helper.make_graph(steps, "body", [value("k", TensorProto.INT64, []), *state], ends)
    branch, other = (
        helper.make_graph([node(kind, ["last"], [made])], name, [], [value(made, TensorProto.FLOAT, [1, 8])])
        for name, kind, made in (("then", "Exp", "taken"), ("else", "Neg", "left"))
    )
    loop = node("Loop", ["count", "yes", "x"], ["last"], name="/loop", body=body)
    nodes = [loop, node("If", ["yes"], ["y"], name="/if", then_branch=branch, else_branch=other)]
    constants = {"count": np.int64(4), "yes": np.bool_(True)}
    return save(nodes, {"x": [1, 8]}, ["y"], constants, **about)


def test_a_loop_and_a_branch_are_judged_as_nodes(save, node):
    report = nb.inspect(written(save, node))
    assert [(one.key, one.verdict) for one in report.judgements] == [("/loop", "pass"), ("/if", "pass")]
    assert "The nodes inside of /loop, /if were not judged one by one." in report.notes


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"factor": 1.5}, "body (its node 1, Constant) is 1.5 in place of 2"),
        ({"wave": "Tanh"}, "body (its node 3) is Tanh(node 2) in place of Sin(node 2)"),
    ],
)
def test_what_differs_inside_of_a_loop_is_named(save, node, change, words):
    right, wrong = (written(save, node, name=name, **one) for name, one in (("right", {}), ("wrong", change)))
    assert nb.inspect(right, against=written(save, node, name="same")).verdict == "pass"
    found = nb.inspect(wrong, against=right).first
    assert (found.key, found.blame) == ("/loop", "file")
    assert words in found.statement
