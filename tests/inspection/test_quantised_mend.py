"""Layers of a quantised file back in float: what is left is its own weights, and the least set is the planted one."""

import shutil

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import kokoro_nb as nb
from kokoro_nb.errors import InputError
from kokoro_nb.inspection.file_run import examined
from kokoro_nb.inspection.onnx_file import read_onnx
from kokoro_nb.inspection.onnx_model import run_session, session_of
from kokoro_nb.inspection.quantised_mend import candidates, quantised_mend, unrounded
from kokoro_nb.inspection.whole_file import signal_to_noise
from tests.corpus.onnx_files import with_constant
from tests.inspection import quantised_files as files

ROUNDED = ("qdq", "qoperator", "dynamic")


@pytest.fixture(scope="module")
def inputs():
    return files.drawn_inputs(7)


def _run(model, inputs, optimised=False):
    return run_session(session_of(model, optimised), inputs)["y"]


def _rounded_weights(quantised, form):
    """Return the float file with the weights that the quantised one has."""
    model = onnx.load(quantised / "float.onnx")
    held = {one.name: numpy_helper.to_array(one) for one in onnx.load(quantised / f"{form}.onnx").graph.initializer}
    for one in model.graph.initializer:
        integers, scale = held[f"{one.name}_quantized"].astype(np.float64), held[f"{one.name}_scale"].astype(float)
        less = held[f"{one.name}_zero_point"].astype(float)
        axis = (1, -1) if one.name == "w3" else (-1, *[1] * (integers.ndim - 1))
        scale, less = (each.reshape(axis) if each.size > 1 else each.reshape(()) for each in (scale, less))
        one.CopyFrom(numpy_helper.from_array(((integers - less) * scale).astype(np.float32), one.name))
    return model


@pytest.mark.parametrize("form", ROUNDED)
def test_all_layers_back_in_float_are_the_float_file_with_the_weights_of_this_one(quantised, inputs, form):
    seen = examined(read_onnx(quantised / f"{form}.onnx"), inputs)
    every = candidates(seen.file, seen.budget)
    assert {one.key for one in seen.budget.layers} <= {*every}
    plain = unrounded(seen.file, seen.budget, every)
    right = _run(_rounded_weights(quantised, form), inputs)
    assert signal_to_noise(_run(plain, inputs), right) > 110  # dB: float32 against itself in another order
    assert signal_to_noise(_run(seen.file.model, inputs), right) < 60
    kinds = {node.op_type for node in plain.graph.node}
    assert not {"QuantizeLinear", "DynamicQuantizeLinear", "QLinearConv", "ConvInteger", "MatMulInteger"} & kinds
    assert _run(unrounded(seen.file, seen.budget, ()), inputs).tobytes() == _run(seen.file.model, inputs).tobytes()


@pytest.mark.parametrize("form", ROUNDED)
def test_a_layer_alone_in_float_leaves_the_others_as_they_are(quantised, inputs, form):
    seen = examined(read_onnx(quantised / f"{form}.onnx"), inputs)
    every = candidates(seen.file, seen.budget)
    right = _run(unrounded(seen.file, seen.budget, every), inputs)
    one = _run(unrounded(seen.file, seen.budget, every[:1]), inputs)
    noise = [np.square(each - right).mean() for each in (_run(seen.file.model, inputs), one)]
    assert 0 < noise[1] < noise[0]
    alone = [_run(unrounded(seen.file, seen.budget, {*every} - {key}), inputs) for key in every]
    added = sum(float(np.square(each - right).mean()) for each in alone)
    assert abs(10 * np.log10(added / noise[0])) < 1.5  # dB: the noises of several layers add up as powers


def _spoilt(quantised, tmp_path, layer, times):
    """Write the QDQ file with the range of what goes into one layer `times` too wide."""

    def find(nodes, held):
        makers = {name: node for node in nodes for name in node.output}
        return next(makers[one.input[0]].input[1] for one in nodes if one.name == layer)

    path = shutil.copy(quantised / "qdq.onnx", tmp_path / "spoilt.onnx")
    with_constant(path, find, lambda scale: (scale * np.float32(times)).astype(np.float32))
    return path


@pytest.mark.parametrize("layer", ["conv1", "conv2"])
def test_the_layer_whose_range_is_wrong_is_the_one_that_goes_back(quantised, inputs, tmp_path, layer):
    seen = examined(read_onnx(_spoilt(quantised, tmp_path, layer, 24)), inputs)
    found = quantised_mend(seen, tmp_path / "mended.onnx", limit=30)
    assert found.kept == (layer,)
    assert found.plain == found.withdrawn[layer] < 30 <= found.mended
    assert "1 of" in str(found)
    assert "withdrawn below 30 dB" in str(found)
    right = _run(_rounded_weights(quantised, "qdq"), inputs)
    mended = onnx.load(tmp_path / "mended.onnx")
    assert signal_to_noise(_run(mended, inputs), right) == pytest.approx(found.mended, abs=0.1)
    assert signal_to_noise(_run(mended, inputs, optimised=True), right) > 28  # as it ships


@pytest.mark.parametrize("form", ROUNDED)
def test_the_level_of_the_weights_is_what_the_float_file_says(quantised, inputs, tmp_path, form):
    found = quantised_mend(examined(read_onnx(quantised / f"{form}.onnx"), inputs), tmp_path / "m.onnx", limit=10.0)
    true = signal_to_noise(
        _run(_rounded_weights(quantised, form), inputs), _run(onnx.load(quantised / "float.onnx"), inputs)
    )
    assert found.weights == pytest.approx(true, abs=2.0)  # dB; one draw against the one that happened
    assert found.kept == ()
    assert "has to be in float32" in str(found)


def test_inspect_mends_a_quantised_file_until_weights_are_the_louder_part(quantised, inputs, tmp_path):
    path = _spoilt(quantised, tmp_path, "conv1", 24)
    report = nb.inspect(path, inputs, mend=tmp_path / "m.onnx")
    assert "rounding of weights alone makes" in report.notes[-1]
    assert "conv1" in report.mended.kept
    html = report._repr_html_()
    assert report.headline.split(";")[0] in html
    assert "layers in float32" in html
    with pytest.raises(InputError, match="must be above 0 dB"):
        nb.inspect(path, inputs, mend=tmp_path / "m.onnx", level=float("nan"))


def test_what_cannot_be_mended_so_is_refused(quantised, inputs, tmp_path):
    with pytest.raises(InputError, match="rounds no activations"):
        quantised_mend(examined(read_onnx(quantised / "bits.onnx"), inputs), tmp_path / "m.onnx")
    assert not (tmp_path / "m.onnx").exists()
