"""The ids of nodes are those of Model Explorer's ONNX adapter, which has the library onnx_ir name them."""

import json

import numpy as np
import onnx
import pytest
from onnx import helper

import kokoro_nb as nb
from kokoro_nb.inspection.onnx_nodes import nodes_of
from kokoro_nb.inspection.semantics.onnx_call import MEANINGS


@pytest.fixture
def odd_names(save, node):
    """A file with unnamed nodes, three of one name and one whose name is there and empty."""
    names = (None, "same", "same", None, "", "same")
    nodes = [node("Neg", [f"v{k}"], [f"v{k + 1}"], name=name) for k, name in enumerate(names)]
    nodes[4].name = ""
    return save(nodes, {"v0": [3]}, ["v6"])


def test_ids_are_those_of_the_adapter(odd_names):
    ir = pytest.importorskip("onnx_ir")
    from onnx_ir.passes.common import NameFixPass

    model = ir.from_proto(onnx.shape_inference.infer_shapes(onnx.load(odd_names)))
    NameFixPass()(model)
    assert [node.key for node in nodes_of(onnx.load(odd_names).graph)] == [node.name for node in model.graph]


def test_node_data_has_the_form_that_the_viewer_reads(save, node, tmp_path):
    report = nb.inspect(save([node("Neg", ["x"], ["a"]), node("Abs", ["a"], ["y"])], {"x": [3]}, ["y"]))
    for path in report.overlay(tmp_path):
        content = json.loads(path.read_text(), parse_constant=pytest.fail)
        if path.name == "netron.json":
            assert all({"kind", "target", "name", "value"} <= set(item) for item in content["metrics"])
            continue
        (graph,) = content.values()
        assert list(content) == ["main_graph"]
        assert all("value" in one for one in graph["results"].values())
        limits = [one["value"] for one in graph.get("thresholds", ())]
        assert limits == sorted(limits)
        assert all(len(one["bgColor"]) == 7 for one in graph.get("thresholds", ()))


def test_a_figure_that_is_not_finite_is_a_word(save, node, tmp_path):
    nodes = [node("Exp", ["x"], ["y"], name="/e"), node("Log", ["y"], ["z"], name="/l")]
    report = nb.inspect(save(nodes, {"x": [2]}, ["y"]))
    text = next(one for one in report.overlay(tmp_path) if one.name == "local_error.json").read_text()
    assert "NaN" not in text
    assert "Infinity" not in text


@pytest.fixture
def functions(tmp_path, node):
    """A file with two functions, one of which calls the other, three calls, and unnamed nodes all over."""
    ops = [helper.make_opsetid("", 18), helper.make_opsetid("my", 1)]
    half = [node("Neg", ["a"], ["t"], name="/neg"), node("Abs", ["t"], ["b"])]
    whole = [node("Half", ["p"], ["r"], domain="my", name="h"), node("Exp", ["r"], ["q"])]
    nodes = [
        node("Relu", ["x"], ["c"]),
        node("Whole", ["c"], ["d"], domain="my", name="call"),
        node("Half", ["d"], ["e"], domain="my"),
        node("Tanh", ["e"], ["y"]),
        node("Half", ["x"], ["z"], domain="my", name="call"),
    ]
    ends = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [4]) for name in "xyz"]
    graph = helper.make_graph(nodes, "main_graph", ends[:1], ends[1:])
    made = [helper.make_function("my", "Half", ["a"], ["b"], half, ops)]
    made.append(helper.make_function("my", "Whole", ["p"], ["q"], whole, ops))
    path = tmp_path / "functions.onnx"
    onnx.save(helper.make_model(graph, opset_imports=ops, functions=made, ir_version=10), path)
    return path


OF_FUNCTIONS = {  # what model-explorer-onnx 0.4.2 shows of that file, without inputs and outputs
    "main_graph": {"node", "call", "node_1", "node_2", "call_1"},
    "[function]my::Half": {"/neg", "node"},
    "[function]my::Whole": {"h", "node"},
}


def _local(report, folder):
    return json.loads(next(one for one in report.overlay(folder) if one.name == "local_error.json").read_text())


def test_functions_are_graphs_of_their_own_as_in_the_adapter(functions, tmp_path):
    report = nb.inspect(functions)
    assert report.verdict == "pass"
    found = _local(report, tmp_path / "overlay")
    assert {graph: set(one["results"]) for graph, one in found.items()} == OF_FUNCTIONS


def test_a_wrong_node_of_a_function_marks_its_calls_as_well(functions, tmp_path, monkeypatch):
    monkeypatch.setitem(MEANINGS, ("", "Exp"), lambda call, x: np.exp(x) * 1.001)
    report = nb.inspect(functions)
    assert report.first.operator == "Exp"
    results = {graph: one["results"] for graph, one in _local(report, tmp_path / "overlay").items()}
    wrong = {(graph, key) for graph, held in results.items() for key, one in held.items() if one["value"] > 1}
    assert wrong == {("main_graph", "call"), ("[function]my::Whole", "node")}
    blamed = json.loads((tmp_path / "overlay" / "blame.json").read_text())
    assert {(graph, key) for graph, one in blamed.items() for key in one["results"]} == wrong
