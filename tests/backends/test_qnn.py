"""QNN: the artefact, the place of each node, and files of the tracing exporter."""

import json
import sys
from dataclasses import replace

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

from kokoro_nb.backends.exported import export_program
from kokoro_nb.backends.qnn import Qnn, process
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
    legacy_onnx,
)
from kokoro_nb.backends.qnn.process import RECORD, QnnError, compile_checked
from tests.backends.small import Layers, Of, here, taking
from tests.refusals import refused

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
    assert result.as_dict()["accepted one by one"] == 4
    assert result.refusal == ""


def test_a_refusal_is_what_was_logged_as_an_error_where_nothing_was_taken():
    graph = _graph(_node("a"))
    error = "\x1b[1;31m2026-11-21 13:14:22.7 [E:onnxruntime:, a.cc:1 GetCapability] Cannot be\nfused together.\x1b[m\n"
    declined = assigned(graph, [(CPU, "a", "", "Mul")], _verdict("a", "Mul", True) + error, {"a"})
    assert declined.refusal == "Cannot be\nfused together."
    assert (declined.as_dict()["on NPU"], declined.as_dict()["accepted one by one"]) == (0, 1)
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


@pytest.fixture
def wheel():
    """Skip where Qualcomm's provider is absent."""
    here("onnxruntime-qnn")


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
    assert (result.backend, result.rung, result.error) == ("onnxruntime-qnn", "serialised", "QnnError")
    assert "was inserted using the NHWC format" in result.message


@pytest.mark.usefixtures("wheel")
def test_an_option_that_the_provider_misreads_and_an_unknown_chip_are_errors(tmp_path):
    path, chip = _file(tmp_path, "Sigmoid"), {"soc_model": "57", "htp_arch": "75"}
    with pytest.raises(QnnError, match="given enable_htp_fp16_precision=yes, but its log says 0"):
        compile_checked(path, tmp_path / "c.onnx", {**chip, "enable_htp_fp16_precision": "yes"})
    with pytest.raises(QnnError, match="takes none of the 3 nodes") as caught:
        compile_checked(path, tmp_path / "c.onnx", {"soc_model": "9999"})
    assert "QNN_DEVICE_ERROR_INVALID_CONFIG" in caught.value.__notes__[0]


X = {"x": torch.linspace(-1, 1, 12).reshape(1, 3, 4)}
CONV = Layers(nn.Conv1d(3, 4, 3))


def test_without_the_wheel_it_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime_qnn", None)
    reason = "Qualcomm's provider is not installed; install it with pip install 'kokoro_nb[qnn]'."
    assert QNN.available() == reason


def test_it_executes_where_the_wheel_has_the_simulator(monkeypatch):
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    assert QNN.executes() is None
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    assert "Linux on x86-64 only" in QNN.executes()


def test_a_worker_without_the_wheel_makes_the_export_a_record(tmp_path, monkeypatch):
    script = tmp_path / "worker.py"
    text = process.WORKER.read_text(encoding="utf-8")
    script.write_text(f"import sys\nsys.modules['onnxruntime_qnn'] = None\n{text}", encoding="utf-8")
    monkeypatch.setattr("kokoro_nb.backends.qnn.process.WORKER", script)
    failure = QNN.export(CONV, X, tmp_path)
    assert (failure.rung, failure.error) == ("serialised", "QnnError")
    assert "onnxruntime_qnn" in failure.message
    assert not list(tmp_path.glob("onnxruntime-qnn-*"))


@pytest.mark.usefixtures("wheel")
class TestInstalled:
    def test_the_artefact_is_a_context_for_the_chip_asked_for(self, tmp_path):
        made = replace(QNN, soc_model="43").export(CONV, X, tmp_path)
        files = ["meta.json", "model_ctx.onnx", "model_ctx_qnn.bin"]
        assert sorted(p.name for p in made.path.parent.iterdir()) == files
        model = onnx.load(made.path)
        assert [node.op_type for node in model.graph.node] == ["EPContext"]
        assert {e.key: e.value for e in model.metadata_props}[RECORD].split(":")[4:7] == ["73", "43", "0"]
        options = json.loads((made.path.parent / "meta.json").read_text())["options"]
        assert options == {"provider": {"soc_model": "43", "htp_arch": "73"}}
        assert set(made.seconds) == {"exported", "lowered", "serialised"}

    def test_an_artefact_whose_binary_is_gone_does_not_load(self, tmp_path):
        made = QNN.export(CONV, X, tmp_path)
        made.path.with_name("model_ctx_qnn.bin").unlink()
        with pytest.raises(QnnError, match="file path in ep_cache_context does not exist"):
            QNN.load(made)

    def test_what_the_npu_takes_nothing_of_is_a_failure_with_the_reasons(self, tmp_path):
        failure = QNN.export(Of(lambda x: torch.acosh(x)), X, tmp_path)
        assert (failure.rung, failure.error) == ("serialised", "QnnError")
        assert "takes none of the 1 nodes" in failure.message
        assert "`Acosh` are not supported" in failure.log
        made = QNN.export(Of(lambda x: torch.acosh(x + 3)), X, tmp_path)  # the sum on the NPU, the rest on the CPU
        assert [node.op_type for node in onnx.load(made.path).graph.node] == ["EPContext", "Acosh"]
        expected = np.arccosh(X["x"].numpy() + 3)
        # The sum is up to 4 with steps of 2^-8 in float16, of which half can be lost; the slope there is 1 / sqrt(15).
        np.testing.assert_allclose(QNN.load(made).run(X)["output"], expected, atol=2.0**-9)


# what `torch.export` refuses and tracing takes, with the branch that the example took
BRANCHING = taking(lambda x, y: x - y if x.sum() > y.sum() else x + y)


def test_a_module_is_traced_to_a_file_that_computes_the_same(tmp_path):
    from onnx.reference import ReferenceEvaluator

    inputs = {"y": X["x"] * 2 + 1, "x": X["x"]}  # the order of the forward counts, not this one
    path = legacy_onnx(BRANCHING, inputs, tmp_path / "m.onnx")
    assert [value.name for value in onnx.load(path).graph.input] == ["x", "y"]
    (result,) = ReferenceEvaluator(str(path)).run(None, {name: tensor.numpy() for name, tensor in inputs.items()})
    np.testing.assert_array_equal(result, (inputs["x"] + inputs["y"]).numpy())


def test_names_of_nodes_carry_the_module_which_stays_as_it_was(tmp_path):
    module = Layers(nn.Sequential(nn.Conv1d(3, 2, 1))).train()
    path = legacy_onnx(module, X, tmp_path / "m.onnx")
    assert "/0/0.0/Conv" in {node.name for node in onnx.load(path).graph.node}
    assert module.training
    assert all(weight.requires_grad for weight in module.parameters())


def test_what_the_tracer_cannot_write_is_a_failure_with_the_exact_error(tmp_path, capfd):

    failure = legacy_onnx(Of(lambda x: (x * 1j).abs()), X, tmp_path / "m.onnx")
    assert (failure.backend, failure.rung, failure.error) == ("torch.onnx", "lowered", "RuntimeError")
    assert failure.message == "Unknown number type: complex"
    assert "aten::abs" in failure.log
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize(
    ("inputs", "where", "sentence"),
    [({}, "m.onnx", "Input 'x' is missing"), ({**X, "y": X["x"]}, "no/m.onnx", "There is no folder")],
)
def test_bad_input_is_refused(inputs, where, sentence, tmp_path):
    refused(sentence, legacy_onnx, BRANCHING, inputs, tmp_path / where)
