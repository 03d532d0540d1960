"""What float16 would do to a file: checked against a file that is float16."""

from dataclasses import replace

import numpy as np
import pytest
from onnx import TensorProto

import kokoro_nb as nb
from kokoro_nb.inspection import whole_file
from kokoro_nb.inspection.float16_foresight import foreseen, in_danger
from kokoro_nb.inspection.node_judgement import relative_noise
from kokoro_nb.inspection.onnx_file import read_onnx
from kokoro_nb.inspection.onnx_model import run_once


def test_the_running_phase_comes_out_by_itself(source):
    nodes = nb.inspect(source(24000), {"f0": np.full((1, 24000), 200, np.float32)}).foresight
    by_key = {one.key: one for one in nodes}
    assert "most noise would enter at /sin (Sin): " in foreseen(nodes)[-1]
    assert by_key["/sin"].noise > 0.5  # of the sine
    assert by_key["/phase"].noise < 0.01
    assert by_key["/phase"].headroom == pytest.approx(np.log2(65504 / (2 * np.pi * 200 * 9)), abs=1e-3)


def test_what_is_foreseen_is_what_float16_gives(save, node):
    """Truly executed: the runtime's own float16 file has the noise that was foreseen."""
    random = np.random.default_rng(0)
    weights = random.standard_normal((32, 32)) / 6

    def write(dtype):
        nodes = [node("MatMul", ["x", "w"], ["m"], name="/m"), node("Tanh", ["m"], ["y"], name="/t")]
        return save(nodes, {"x": [40, 32]}, ["y"], {"w": weights.astype(dtype)}, dtype=dtype, name=f"{dtype}.onnx")

    x = random.standard_normal((40, 32)).astype(np.float32)
    half = read_onnx(write("float16"))
    right = np.tanh(x.astype(np.float64) @ weights.astype(np.float32))
    given = run_once(half.model, {"x": x.astype(np.float16)})["y"]
    foreseen_noise = nb.inspect(write("float32"), {"x": x}).foresight[-1].noise
    assert relative_noise(given.astype(np.float64), right) == pytest.approx(foreseen_noise, rel=0.1)


def test_an_overflow_inside_is_reported_apart_from_one_at_the_border(written):
    steps = [("ReduceMean", "x", "a", {"axes": [1], "keepdims": 0}), ("Exp", "k", "e"), ("Mul", "a e", "y")]
    path = written("sum.onnx", steps, {"k": np.float32(12)}, {"x": [1, 4096]}, opset=13)
    found = {one.key: one for one in nb.inspect(path, {"x": np.full((1, 4096), 20, np.float32)}).foresight}
    mean, exp, _ = found.values()
    assert mean.inside < 0 < 10 < mean.headroom  # 81,920
    assert exp.headroom < 0  # e^12 is 162,755
    assert mean.overflows
    assert {one.key for one in in_danger(tuple(found.values()), 2)} <= {*found}
    assert np.isnan(exp.noise)


def test_nan_is_never_foreseen_to_fit_into_float16(save, node):
    path = save([node("Log", ["x"], ["y"], name="/log")], {"x": [2]}, ["y"])
    (found,) = nb.inspect(path, {"x": np.array([2, 1], np.float32)}).foresight
    assert [one.overflows for one in (found, replace(found, headroom=float("nan")))] == [False, True]


def test_the_report_of_a_float32_file_foresees_and_that_of_a_float16_file_does_not(source, tmp_path):
    report = nb.inspect(source(24000), {"f0": np.full((1, 24000), 200, np.float32)})
    assert report.findings == ()
    assert any("most noise would enter at /sin" in note for note in report.notes)
    assert "headroom of sums inside (bits)" in report.page(tmp_path / "report.html").read_text()
    half = nb.inspect(source(24000, "float16"), {"f0": np.full((1, 24000), 200, np.float16)})
    assert half.foresight == ()
    assert (half.first.blame, half.first.key) == ("precision", "")


def test_a_cast_to_float16_and_back_before_a_sine_is_named(written):
    constants = {"rate": np.float32(1 / 8000), "axis": np.int64(1), "turn": np.float32(2 * np.pi)}
    steps = [("Mul", "x rate", "s"), ("CumSum", "s axis", "c"), ("Cast", "c", "n", {"to": TensorProto.FLOAT16})]
    steps += [("Cast", "n", "w", {"to": TensorProto.FLOAT}), ("Mul", "w turn", "p"), ("Sin", "p", "y")]
    given = {"x": np.linspace(440, 441, 8000, dtype=np.float32)[None]}
    (found,) = nb.inspect(written("cast.onnx", steps, constants, {"x": [1, 8000]}), given).findings
    assert (found.key, found.blame, found.mechanism.name) == ("Cast n", "precision", "too few bits")
    assert "Sin y (Sin): 31.73% of its result, after 0.02% of its input; Cast n (Cast) rounds to 16" in found.statement
    steps[2:4] = [("Identity", "c", "w")]
    assert nb.inspect(written("plain.onnx", steps, constants, {"x": [1, 8000]}), given).findings == ()


@pytest.mark.parametrize(("dtype", "named"), [("float16", False), ("float32", True)])
def test_what_optimisation_changes_by_less_than_the_type_holds_is_no_finding(save, node, monkeypatch, dtype, named):
    plain = whole_file.summaries
    monkeypatch.setattr(whole_file, "summaries", lambda seen: (replace(one, optimised=4e-4) for one in plain(seen)))
    x = np.linspace(-1, 1, 8).astype(dtype)
    found = nb.inspect(save([node("Neg", ["x"], ["y"], name="/neg")], {"x": [8]}, ["y"], dtype=dtype), {"x": x})
    assert [one.kind for one in found.findings] == ["optimisation"] * named


@pytest.mark.parametrize("kept", [True, False], ids=["kept in float32", "in float16"])
def test_a_sum_is_beyond_float16_only_where_the_file_adds_in_float16(written, kept):
    half, single = {"to": TensorProto.FLOAT16}, {"to": TensorProto.FLOAT}
    steps = [("Cast", "x", "a", half), ("Cast", "a", "b", single), ("ReduceMean", f"{'ab'[kept]} axis", "m")]
    path = written("mean.onnx", [*steps, ("Cast", "m", "y", single)], {"axis": np.array([1])}, {"x": [1, 4096]})
    report = nb.inspect(path, {"x": np.full((1, 4096), 20, np.float32)})
    assert [one.operator for one in report.findings] == ["ReduceMean"] * (not kept)
    assert ("round to 16 bits between nodes of float32: 1, first Cast a (Cast)" in " ".join(report.notes)) == kept
