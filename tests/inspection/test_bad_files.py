"""Files that are damaged: one sentence, or a report; never a traceback."""

import re

import numpy as np
import onnx
import pytest
from onnx import helper

import kokoro_nb as nb
from kokoro_nb.__main__ import main
from tests.refusals import refused


@pytest.fixture
def healthy(save, node):
    nodes = [node("MatMul", ["x", "w"], ["m"], name="/m"), node("Relu", ["m"], ["y"], name="/r")]
    return save(nodes, {"x": [2, 16]}, ["y"], {"w": np.eye(16, dtype=np.float32)})


def _refused(path, sentence):
    refused(rf"\A.*{re.escape(sentence)}.*\Z", nb.inspect, path)  # on one line


def test_what_is_no_file_is_reported(tmp_path):  # what is no model, or half of one, is damaged in the corpus
    _refused(tmp_path / "none.onnx", "does not exist")


def test_an_operator_that_nobody_knows_is_reported(save, node):
    _refused(save([node("Frobnicate", ["x"], ["y"])], {"x": [1]}, ["y"]), "No Op registered for Frobnicate")
    path = save([node("Relu", ["x"], ["y"])], {"x": [1]}, ["y"], opset=9999)
    _refused(path, "wants version 9999 of ONNX's operators")
    own = save([node("Own", ["x"], ["y"], domain="com.microsoft")], {"x": [1]}, ["y"])
    _refused(own, "ONNX Runtime does not load it")


def test_a_wrong_order_is_mended(save, node):
    swapped = [node("Neg", ["a"], ["y"], name="/b"), node("Abs", ["x"], ["a"], name="/a")]
    report = nb.inspect(save(swapped, {"x": [3]}, ["y"]))
    assert [one.key for one in report.judgements] == ["/a", "/b"]
    assert report.verdict == "pass"
    assert any("order" in note for note in report.notes)


def test_weights_beside_the_file_are_looked_at(healthy, tmp_path):
    model = onnx.load(healthy)
    path = tmp_path / "large.onnx"
    onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    assert nb.inspect(path).verdict == "pass"
    data = (tmp_path / "weights.bin").read_bytes()
    (tmp_path / "weights.bin").write_bytes(data[:10])
    _refused(path, "exceeds available data (10 bytes")
    (tmp_path / "weights.bin").unlink()
    _refused(path, "weights.bin, but it is not regular file")
    model = onnx.load(path, load_external_data=False)
    model.graph.initializer[0].external_data[0].value = "../../etc/passwd"
    path.write_bytes(model.SerializeToString())
    _refused(path, "points outside the directory")


def test_inputs_that_nobody_can_make_are_asked_for(save, node):
    text = dict.fromkeys("xy", onnx.TensorProto.STRING)
    path = save([node("Identity", ["x"], ["y"])], {"x": [2]}, ["y"], **text)
    _refused(path, "is text; give --inputs")


def test_the_time_given_is_kept_and_what_was_seen_is_reported(save, node):
    nodes = [node("Neg", [f"v{k}"], [f"v{k + 1}"], name=f"/n{k}") for k in range(80)]
    report = nb.inspect(save(nodes, {"v0": [3]}, ["v80"]), seconds=1e-9)
    assert 0 < len(report.judgements) < 80
    assert report.verdict == "unknown"
    assert any("time was up" in note for note in report.notes)


def test_words_that_are_no_time_and_no_inputs_are_reported(healthy, tmp_path, capsys):
    assert main(["inspect", str(healthy), "--budget", "soon"]) == 2
    (tmp_path / "x.npz").write_bytes(b"no")
    assert main(["inspect", str(healthy), "--inputs", str(tmp_path / "x.npz")]) == 2
    assert "numpy.savez" in capsys.readouterr().err


def test_a_function_of_the_file_is_written_out(save, node):
    path = save([node("Twice", ["x"], ["y"], domain="own", name="/t")], {"x": [3]}, ["y"])
    model, inside = onnx.load(path), [node("Add", ["a", "a"], ["b"])]
    model.functions.append(helper.make_function("own", "Twice", ["a"], ["b"], inside, [helper.make_opsetid("", 18)]))
    model.opset_import.add(domain="own", version=1)
    onnx.save(model, path)
    report = nb.inspect(path)
    assert report.verdict == "pass"
    assert [one.operator for one in report.judgements] == ["Add"]
