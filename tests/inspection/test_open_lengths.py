"""Lengths that are not fixed are traced to an input's axis, or to the node that makes them of values."""

import numpy as np
import onnx
import pytest

import kokoro_nb as nb
from kokoro_nb.inspection.onnx_file import read_onnx
from kokoro_nb.inspection.open_lengths import may_differ, open_lengths


@pytest.fixture
def spoken(save, node):
    """Durations by token, as many frames as they add up to, and three samples for each frame and five more."""
    nodes = [
        node("Abs", ["x"], ["a"], name="/abs"),
        node("Ceil", ["a"], ["whole"], name="/durations"),
        node("ReduceSum", ["whole", "axes"], ["total"], name="/total", keepdims=0),
        node("Cast", ["total"], ["count"], name="/count", to=onnx.TensorProto.INT64),
        node("Range", ["zero", "count", "one"], ["frames"], name="/frames"),
        node("Cast", ["frames"], ["f"], name="/f", to=onnx.TensorProto.FLOAT),
        node("Concat", ["f", "f", "f"], ["three"], name="/three", axis=0),
        node("Pad", ["three", "pads"], ["audio"], name="/pad"),
    ]
    constants = {
        "axes": np.array([0]),
        "zero": np.int64(0),
        "one": np.int64(1),
        "pads": np.array([2, 3]),
    }
    return save(nodes, {"x": ["tokens"]}, ["audio", "whole"], constants)


def test_a_length_is_traced_to_the_node_that_makes_it_of_values(spoken):
    x = np.random.default_rng(0).uniform(1, 9, 12).astype(np.float32)
    report = nb.inspect(spoken, {"x": x})
    found = {(one.value, one.axis): one for one in report.lengths}
    audio, frames, whole = found["audio", 0], found["frames", 0], found["whole", 0]
    assert (audio.key, audio.times, audio.plus, audio.length) == ("/frames", 3, 5, 3 * int(np.ceil(x).sum()) + 5)
    assert (frames.key, frames.times, frames.plus) == ("/frames", 1, 0)
    assert (whole.key, whole.origin, whole.times) == ("", "axis 0 of the input 'x'", 1)
    assert ("a", 0) in found
    assert any("axis 0 of 'audio'" in note and "3 times what /frames (Range) makes" in note for note in report.notes)


def test_a_length_that_no_other_one_gives_says_so(save, node):
    nodes = [node("NonZero", ["x"], ["places"], name="/places"), node("NonZero", ["y"], ["others"], name="/others")]
    path = save(nodes, {"x": [40], "y": [40]}, ["places", "others"], places=onnx.TensorProto.INT64, others=7)
    draw = np.random.default_rng(0)
    inputs = {name: (draw.uniform(size=40) > 0.5).astype(np.float32) for name in ("x", "y")}
    file = read_onnx(path)
    assert may_differ(file)
    inputs["x"][:3] = 0, 1, 0
    found, refused = open_lengths(file, inputs, ["places", "others"])
    assert refused == ()
    assert all(one.axis == 1 for one in found)


def test_a_run_that_is_refused_is_noted(save, node):
    path = save([node("Reshape", ["x", "shape"], ["y"])], {"x": ["n"]}, ["y"], {"shape": np.array([3, 4])})
    _, refused = open_lengths(read_onnx(path), {"x": np.zeros(12, np.float32)}, ["y"])
    assert len(refused) == 1
    assert refused[0].startswith("Lengths could not be tried with n shorter: ONNX Runtime stops")


def test_a_file_of_fixed_lengths_is_not_run_again(save, node):
    file = read_onnx(save([node("Neg", ["x"], ["y"])], {"x": [3]}, ["y"]))
    assert not may_differ(file)
    assert nb.inspect(file.path).lengths == ()
