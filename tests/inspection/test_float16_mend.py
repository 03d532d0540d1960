"""A phase that runs away in float16: what has to stay float32 is found by measuring, and proven by withdrawal."""

import numpy as np
import onnx
import pytest

import kokoro_nb as nb
from kokoro_nb.errors import InputError
from kokoro_nb.inspection.file_run import examined
from kokoro_nb.inspection.mended_file import converted, float16_mend
from kokoro_nb.inspection.onnx_file import read_onnx
from kokoro_nb.inspection.onnx_model import run_once
from kokoro_nb.inspection.whole_file import signal_to_noise
from tests.refusals import refused

SAMPLES = 2400


@pytest.fixture
def voiced(source, node):
    """Write a harmonic source with a convolution that float16 does not harm."""
    after = [
        node("Unsqueeze", ["sine", "axis"], ["s"], name="/channel"),
        node("Conv", ["s", "w"], ["c"], name="/conv", pads=[2, 2]),
        node("Tanh", ["c"], ["y"], name="/tanh"),
    ]
    weight = np.random.default_rng(0).standard_normal((2, 1, 5)).astype(np.float32) * 0.3
    return source(SAMPLES, constants={"w": weight}, after=after)


@pytest.fixture
def pitch():
    return {"f0": np.linspace(180, 260, SAMPLES, dtype=np.float32)[None]}


def test_the_running_phase_stays_float32_by_itself(voiced, pitch, tmp_path):
    file = read_onnx(voiced)
    found = float16_mend(examined(file, pitch), tmp_path / "mended.onnx", limit=30.0)
    assert found.plain < 30
    assert found.mended >= 30
    assert {"/cumsum", "/phase", "/sin"} <= set(found.kept)
    assert not {"/conv", "/tanh", "/channel"} & set(found.kept)
    assert all(level < 30 for level in found.withdrawn.values())
    mended = onnx.load(tmp_path / "mended.onnx")
    right = run_once(file.model, pitch)["y"]
    assert signal_to_noise(run_once(mended, pitch)["y"], right) >= 30
    kept = {one.split("#")[0] for one in (node.name for node in mended.graph.node) if "#" in one}
    assert "/conv" in kept  # it is still there, in float16
    weights = {one.name: one.data_type for one in mended.graph.initializer}
    assert weights["w"] == onnx.TensorProto.FLOAT16
    assert "below 30 dB" in str(found)


def test_no_node_is_kept_where_float16_is_enough(save, node, tmp_path):
    path = save([node("Tanh", ["x"], ["y"], name="/tanh")], {"x": [4, 8]}, ["y"])
    x = {"x": np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)}
    found = float16_mend(examined(read_onnx(path), x), tmp_path / "half.onnx")
    assert found.kept == ()
    assert found.plain == found.mended
    assert "None of the 1 nodes has to be in float32" in str(found)


def test_constants_are_not_cut(save, node):
    path = save([node("Mul", ["x", "k"], ["y"], name="/rate")], {"x": [2]}, ["y"], {"k": np.float32(24000)})
    half = converted(read_onnx(path).model, [])
    assert float(onnx.numpy_helper.to_array(half.graph.initializer[0])) == 24000


def test_inspect_writes_the_mended_file_and_says_what_stays(voiced, pitch, tmp_path):
    report = nb.inspect(voiced, pitch, mend=tmp_path / "half.onnx")
    assert (tmp_path / "half.onnx").exists()
    assert report.notes[-1].startswith("half.onnx: Level of the outputs")
    refused("holds floats of 16 bits already", nb.inspect, tmp_path / "half.onnx", pitch, mend=tmp_path / "again.onnx")
    refused("leave --static out", nb.inspect, voiced, mend=tmp_path / "again.onnx", static=True)


def test_no_more_is_asked_than_float32_itself_reaches(save, node, tmp_path):
    path = save([node("Mul", ["x", "k"], ["y"], name="/mul")], {"x": [2]}, ["y"], {"k": np.float32(1 / 3)})
    seen = examined(read_onnx(path), {"x": np.array([0.1, 0.3], np.float32)})
    found = float16_mend(seen, tmp_path / "m.onnx", limit=400.0)
    assert 100 < found.limit < 200
    assert found.kept == ("/mul",)


def test_what_is_not_finite_or_draws_is_refused(save, node, tmp_path):
    nodes = [node("Log", ["x"], ["y"])]
    with pytest.raises(InputError, match="is not finite as it is"):
        nb.inspect(save(nodes, {"x": [2]}, ["y"]), {"x": np.zeros(2, np.float32)}, mend=tmp_path / "m.onnx")
    nodes = [node("RandomNormalLike", ["x"], ["noise"]), node("Add", ["x", "noise"], ["y"])]
    drawn = save(nodes, {"x": [2]}, ["y"], name="drawn.onnx")
    refused("draws at random", nb.inspect, drawn, {"x": np.ones(2, np.float32)}, mend=tmp_path / "m.onnx")
    assert not (tmp_path / "m.onnx").exists()


def test_indices_that_float16_cannot_hold_stay_float32(written, tmp_path):
    constants = {"one": np.float32(1.0), "data": np.linspace(-1, 1, 70_000, dtype=np.float32)}
    steps = [("Mul", "x one", "place"), ("Cast", "place", "index", {"to": onnx.TensorProto.INT64})]
    file = read_onnx(written("m.onnx", [*steps, ("Gather", "data index", "y")], constants, {"x": [3]}))
    seen = examined(file, {"x": np.array([1, 500, 69_999], np.float32)})
    found = float16_mend(seen, tmp_path / "mended.onnx", limit=30.0)
    assert found.plain == float("-inf"), "the runtime alone keeps the product in float32, and gives the right values"
    assert "Mul place" in found.kept
    assert found.mended >= 30
