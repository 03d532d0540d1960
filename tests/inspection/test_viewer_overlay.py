"""The ids of nodes are those of Model Explorer's ONNX adapter, which has the library onnx_ir name them."""

import json

import onnx
import pytest

import kokoro_nb as nb
from kokoro_nb.inspection.onnx_nodes import nodes_of


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
