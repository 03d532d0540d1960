"""Traps of other tools that take a file or their own code to show: see the table in `test_metric_traps`."""

from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnxruntime.quantization import qdq_loss_debug as debugger

import kokoro_nb as nb
from kokoro_nb.inspection.file_run import examined
from kokoro_nb.inspection.float16_foresight import float16_foresight
from kokoro_nb.inspection.node_judgement import judged_outputs
from kokoro_nb.inspection.onnx_file import read_onnx
from kokoro_nb.inspection.semantics.onnx_call import OnnxCall, dtypes_of
from kokoro_nb.inspection.whole_file import signal_to_noise
from tests.inspection import quantised_files as files


def test_unsigned_weights_do_not_wrap():
    """ORT's debugger subtracts a zero point from uint8 in uint8: 5 - 128 is 133."""
    assert np.uint8(5) - np.uint8(128) == 133
    node = _node("DequantizeLinear", 3)
    inputs = [np.array([5], np.uint8), np.float32(0.5), np.uint8(128)]
    errors, exact = judged_outputs(OnnxCall(node, {"": 18}, dtypes_of(inputs)), inputs, [np.array([-61.5], np.float32)])
    assert exact[0] == -61.5
    assert not errors[0].is_wrong


def test_what_is_equal_is_without_noise():
    """ORT's debugger holds norms above 2e-16: silence equal to silence is 0 dB, the worst of a list."""
    theirs = debugger.compute_signal_to_quantization_noice_ratio
    silence, sound = np.zeros(4), np.ones(4)
    assert theirs(silence, silence) == 0.0 < theirs(sound, sound + 0.5)
    assert theirs(sound, sound) == pytest.approx(319, abs=1)
    assert signal_to_noise(silence, silence) == signal_to_noise(sound, sound) == np.inf


@pytest.mark.filterwarnings("ignore:invalid value")
def test_one_infinity_does_not_end_the_report(save, node):
    """ORT's debugger takes the logarithm of what an infinity leaves: it raises, and no other activation has a row."""
    sound, spoilt = np.ones(4), np.array([np.inf, 1, 1, 1])
    with pytest.raises(ValueError, match="math domain"):
        debugger.compute_signal_to_quantization_noice_ratio(sound, spoilt)
    assert np.isnan(debugger.compute_signal_to_quantization_noice_ratio(spoilt, sound))
    assert signal_to_noise(spoilt, sound) is None
    nodes = [node("Exp", ["x"], ["e"], name="/exp"), node("Neg", ["x"], ["y"], name="/neg")]
    report = nb.inspect(save(nodes, {"x": [2]}, ["e", "y"]), {"x": np.array([1000, 1], np.float32)})
    assert [one.key for one in report.judgements] == ["/exp", "/neg"]
    assert report.judgements[0].outputs[0].finite == 0.5


def test_no_float_model_is_needed(quantised, tmp_path):
    """ORT's debugger asks for activations of the float model."""
    inputs = files.drawn_inputs(7)
    debugger.modify_model_output_intermediate_tensors(quantised / "qdq.onnx", tmp_path / "tapped.onnx")
    collected = debugger.collect_activations(str(tmp_path / "tapped.onnx"), [inputs])
    with pytest.raises(KeyError, match="float"):
        debugger.compute_activation_error(debugger.create_activation_matching(collected))
    assert len(examined(read_onnx(quantised / "qdq.onnx"), inputs).budget.layers) == 4


def test_pairs_are_not_made_by_names(quantised, tmp_path):
    """Under other names of the same values ORT's debugger finds no activation; the budget is the same."""
    model = onnx.load(quantised / "qdq.onnx")
    kept = {one.name for one in (*model.graph.input, *model.graph.output)}
    for one in model.graph.node:
        for names in (one.input, one.output):
            names[:] = [f"v{name}v" if name and name not in kept else name for name in names]
    for one in model.graph.initializer:
        one.name = f"v{one.name}v"
    del model.graph.value_info[:]
    path, inputs = tmp_path / "renamed.onnx", files.drawn_inputs(7)
    onnx.save(model, path)
    debugger.modify_model_output_intermediate_tensors(path, tmp_path / "tapped.onnx")
    matched = debugger.create_activation_matching(debugger.collect_activations(str(tmp_path / "tapped.onnx"), [inputs]))
    assert set(matched) <= kept
    before, after = (examined(read_onnx(one), inputs).budget for one in (quantised / "qdq.onnx", path))
    assert after.layers == before.layers
    assert [one.level for one in after.values] == [one.level for one in before.values]


def test_a_node_of_nan_does_not_vanish(save, node):
    """Neural Insights leaves operators out whose error is NaN, so that the one that is worst is not in its list."""
    errors = {"/log": float("nan"), "/neg": 1e-9}
    assert [key for key, error in errors.items() if error == error] == ["/neg"]
    nodes = [node("Log", ["x"], ["l"], name="/log"), node("Neg", ["x"], ["y"], name="/neg")]
    report = nb.inspect(save(nodes, {"x": [2]}, ["l", "y"]), {"x": np.array([-1, 1], np.float32)})
    assert report.first.key == "/log"
    assert {one.key for one in report.worst()} == {"/log", "/neg"}


def test_every_output_of_a_node_counts():
    """AIMET compares the first output."""
    split = onnx.helper.make_node("Split", ["x"], ["a", "b"], axis=0, num_outputs=2)
    inputs = [np.arange(4, dtype=np.float32)]
    given = [inputs[0][:2], inputs[0][2:] + 1]
    errors, exact = judged_outputs(OnnxCall(split, {"": 18}, dtypes_of(inputs)), inputs, given)
    assert np.array_equal(given[0], exact[0])
    assert [one.is_wrong for one in errors] == [False, True]


def test_infinity_is_found_unasked(save, node):
    """Polygraphy's `validate` looks for NaN alone unless `check_inf` is set."""
    from polygraphy.comparator import Comparator, IterationResult, RunResults

    value = np.array([1, np.inf], np.float32)
    run = RunResults([("a", [IterationResult({"y": value}, runner_name="a")])])
    assert Comparator.validate(run)
    assert not Comparator.validate(run, check_inf=True)
    path = save([node("Div", ["x", "k"], ["y"], name="/div")], {"x": [2]}, ["y"], {"k": np.array([1, 0], np.float32)})
    assert nb.inspect(path, {"x": np.ones(2, np.float32)}).first.key == "/div"


def test_nan_is_never_foreseen_to_fit_into_float16(save, node):
    """AutoCast gives a node to float16 where its largest value is not above 512: that of NaN is not."""
    nodes = [node("Log", ["x"], ["l"], name="/log"), node("Neg", ["l"], ["y"], name="/neg")]
    found = float16_foresight(read_onnx(save(nodes, {"x": [2]}, ["y"])), {"x": np.array([2, 1], np.float32)})
    assert not found[0].overflows
    assert replace(found[0], headroom=float("nan")).overflows


def _node(kind, inputs):
    return onnx.helper.make_node(kind, [f"i{k}" for k in range(inputs)], ["y"])
