"""Bodies of Loop and If by themselves: every node of every pass is judged, and the worst pass is named."""

import json

import numpy as np
import pytest
from onnx import TensorProto, helper

import kokoro_nb as nb
from kokoro_nb.inspection import onnx_session


@pytest.fixture
def loop(save, node):
    """Write a loop of four passes that takes the sine of twice its state, and a branch that is taken."""
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
    return save(nodes, {"x": [1, 8]}, ["y"], constants)


def test_bodies_are_judged_and_the_passes_counted(loop):
    report = nb.inspect(loop)
    assert report.findings == ()
    assert [(run.key, run.passes) for run in report.bodies] == [("/loop", 4), ("/if", 1)]
    assert [one.key for _, one in report.bodies[0].worst] == ["/keep", "/double", "/sin"]
    assert [one.key for _, one in report.bodies[1].worst] == ["/exp"]


def test_a_wrong_node_of_a_body_is_named_in_its_worst_pass(loop, monkeypatch):
    real = onnx_session.run_session
    passes = iter(range(1000))

    def spoilt(session, inputs):
        results = real(session, inputs)
        if "double" in results and next(passes) == 2:
            results["double"] = results["double"] * (1 + 1e-3)
        return results

    monkeypatch.setattr("kokoro_nb.inspection.node_groups.run_session", spoilt)
    report = nb.inspect(loop)
    assert report.first.key == "/loop//double"
    assert report.first.statement.startswith("In /loop, pass 3 of 4: /double (Mul) is wrong by")


def test_bodies_are_in_the_overlay_under_the_ids_of_the_viewer(loop, tmp_path):
    path = next(one for one in nb.inspect(loop).overlay(tmp_path) if one.name == "local_error.json")
    graphs = json.loads(path.read_text())
    assert {name: set(one["results"]) for name, one in graphs.items()} == {
        "main_graph": {"/loop", "/if", "/if/then_branch//exp"},
        "/loop/body": {"/keep", "/double", "/sin"},
    }
