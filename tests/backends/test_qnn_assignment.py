from dataclasses import replace

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

from kokoro_nb.backends.base import Failure
from kokoro_nb.backends.exported import export_program
from kokoro_nb.backends.qnn import Qnn
from kokoro_nb.backends.qnn.assignment import (
    ALONE,
    FOLDED,
    MERGED,
    SCOPES,
    UNSEEN,
    Node,
    _named,
    assigned,
    assignment,
)
from kokoro_nb.errors import InputError
from tests.backends.small import Layers

QNN = Qnn("onnxruntime-qnn")
NPU, CPU = "QNNExecutionProvider", "CPUExecutionProvider"


def _verdict(name, op, passed, reason=""):
    said = "PASSED" if passed else "FAILED"
    told = f"\tREASON : {reason}\n" if reason else ""
    start = "2026-11-21 13:14:22.7 [V:onnxruntime:, a.cc:1 LogNodeSupport]"
    return (
        f"{start} Validation {said} for 1 nodes in OrtNodeUnit ({op}) :\n"
        f"\tOperator type: {op} Node name: {name} Node index: 1\n{told}"
    )


def _value(name, shape=(1, 2, 6)):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def _graph(*nodes):
    return helper.make_graph(nodes, "g", [_value("x")], [_value("y")])


def _node(name, op="Mul", scopes=None, **attributes):
    node = helper.make_node(op, ["x"], [name or "out"], name, **attributes)
    if scopes:
        node.metadata_props.add(key=SCOPES, value=scopes)
    return node


def test_each_node_of_the_file_has_one_place_and_none_is_lost():
    body = helper.make_graph([_node("inner")], "body", [], [])
    graph = _graph(
        _node("taken", scopes="['', 'decoder', 'decoder.encode', 'mul_1']"),
        _node("written_anew", "Conv"),
        _node("falls_back", "Loop", body=body),
        _node("accepted_but_not_taken"),
        _node("folded", "Constant"),
        _node("merged", "Transpose"),
        _node("lost"),
        _node("refused_and_lost"),
    )
    placed = [
        (NPU, "taken", "", "Mul"),
        (NPU, "written_anew_token_7", "com.ms.internal.nhwc", "Conv"),
        (NPU, "Transpose_token_8", "", "Transpose"),
        (NPU, "taken_token_9", "", "Transpose"),  # of another type: not the node of that name
        (CPU, "falls_back", "", "Loop"),
        (CPU, "inner", "", "Mul"),
        (CPU, "accepted_but_not_taken", "", "Mul"),
        (CPU, "gemm", "", "Gemm"),
    ]
    log = (
        _verdict("taken", "Mul", True)
        + _verdict("written_anew", "Conv", True)
        + _verdict("falls_back", "Loop", False, "Operators of type `Loop` are not supported.")
        + _verdict("accepted_but_not_taken", "Mul", True)
        + _verdict("merged", "Transpose", True)
        + _verdict("refused_and_lost", "Mul", False, "No.")
    )
    result = assigned(graph, placed, log, kept={node.name for node in graph.node} - {"folded"})
    assert result.nodes == (
        Node("taken", "Mul", "decoder.encode", "npu", True),
        Node("written_anew", "Conv", "", "npu", True),
        Node("falls_back", "Loop", "", "cpu", False, "Operators of type `Loop` are not supported."),
        Node("inner", "Mul", "", "cpu", None, UNSEEN),
        Node("accepted_but_not_taken", "Mul", "", "cpu", True, ALONE),
        Node("folded", "Constant", "", "removed", None, FOLDED),
        Node("merged", "Transpose", "", "removed", True, MERGED),
        Node("lost", "Mul", "", "unknown", None, UNSEEN),
        Node("refused_and_lost", "Mul", "", "unknown", False, "No."),
    )
    assert result.inserted == {("Transpose", "npu"): 2, ("Gemm", "cpu"): 1}
    assert sum(result.inserted.values()) + result.count("npu") + result.count("cpu") == len(placed)
    assert [result.count(place) for place in ("npu", "cpu", "removed", "unknown")] == [2, 3, 2, 2]
    assert result.accepted == 4
    assert result.refusal == ""


def test_a_refusal_is_what_was_logged_as_an_error_where_nothing_was_taken():
    graph = _graph(_node("a"))
    error = "2026-11-21 13:14:22.7 [E:onnxruntime:, a.cc:1 GetCapability] Cannot be fused together.\n"
    refused = assigned(graph, [(CPU, "a", "", "Mul")], _verdict("a", "Mul", True) + error, {"a"})
    assert refused.refusal == "Cannot be fused together."
    assert refused.as_dict()["on NPU"] == 0
    assert refused.as_dict()["accepted one by one"] == 1
    assert assigned(graph, [(NPU, "a", "", "Mul")], error, {"a"}).refusal == ""


def test_nodes_without_a_name_of_their_own_are_given_one(tmp_path):
    body = helper.make_graph([_node(""), _node("twice")], "body", [], [])
    model = helper.make_model(_graph(_node(""), _node("twice"), _node("twice", "Loop", body=body)))
    onnx.save(model, tmp_path / "model.onnx")
    graph, path = _named(tmp_path / "model.onnx", tmp_path / "copy.onnx")
    names = [node.name for node in graph.node] + [node.name for node in graph.node[2].attribute[0].g.node]
    assert names == ["Mul#0", "twice", "twice#2", "Mul#3", "twice#4"]
    assert path == tmp_path / "copy.onnx"
    assert onnx.load(path).graph == graph
    assert _named(path, tmp_path / "other.onnx") == (graph, path)
    assert not (tmp_path / "other.onnx").exists()


@pytest.mark.parametrize(
    ("content", "sentence"), [(None, "no ONNX file at"), (b"not a model", "cannot be read as an ONNX model")]
)
def test_what_is_no_onnx_file_is_refused(content, sentence, tmp_path):
    if content:
        (tmp_path / "m.onnx").write_bytes(content)
    with pytest.raises(InputError, match=sentence):
        assignment(tmp_path / "m.onnx", QNN)


def _file(tmp_path, middle):
    """Write a convolution, one operator and a leaky ReLU."""
    nodes = [
        helper.make_node("Conv", ["x", "weight"], ["a"], "conv"),
        helper.make_node(middle, ["a"], ["b"], "middle"),
        helper.make_node("LeakyRelu", ["b"], ["y"], "relu"),
    ]
    weight = numpy_helper.from_array(np.ones((2, 2, 1), "float32"), "weight")
    graph = helper.make_graph(nodes, "g", [_value("x")], [_value("y")], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    onnx.save(onnx.shape_inference.infer_shapes(model), tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


@pytest.mark.usefixtures("wheel")
@pytest.mark.parametrize(("middle", "place"), [("Sigmoid", "npu"), ("Acosh", "cpu")])
def test_the_provider_tells_what_it_takes(middle, place, tmp_path):
    result = assignment(_file(tmp_path, middle), QNN)
    assert [(node.name, node.place) for node in result.nodes] == [("conv", "npu"), ("middle", place), ("relu", "npu")]
    assert ("type `Acosh` are not supported" in result.nodes[1].reason) == (place == "cpu")
    assert result.count("unknown") == 0


@pytest.mark.usefixtures("wheel")
def test_a_module_s_nodes_know_where_they_come_from():
    exported = export_program(Layers(nn.Sequential(nn.Conv1d(2, 2, 1), nn.LeakyReLU())), {"x": torch.ones(1, 2, 6)})
    result = assignment(exported, QNN)
    found = [(node.op, node.module, node.place) for node in result.nodes]
    assert found == [("Conv", "0.0", "npu"), ("LeakyRelu", "0.1", "npu")]
    assert {op for op, _ in result.inserted} == {"Transpose"}


@pytest.mark.usefixtures("wheel")
def test_what_cannot_be_placed_is_a_failure(tmp_path):
    # A chip whose NPU has no float convolution: the provider asks for its layout and then does not take the node.
    result = assignment(_file(tmp_path, "Sigmoid"), replace(QNN, soc_model="93"))
    assert isinstance(result, Failure)
    assert (result.backend, result.rung, result.error) == ("onnxruntime-qnn", "serialised", "QnnError")
    assert "was inserted using the NHWC format" in result.message
