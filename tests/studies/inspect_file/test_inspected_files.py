"""The two files of 21: what the converters are given and give, and what is heard of them."""

import numpy as np
import onnx
import pytest

import kokoro_nb as nb
from kokoro_nb.inspection.onnx_model import run_once
from kokoro_nb.studies.inspect_file import added, converted_files, heard_decoder, heard_source
from tests.refusals import refused

FRAMES = 4


@pytest.fixture(scope="module")
def spoken(shallow):
    return shallow, nb.capture(shallow, "A short one.", seed=3)


@pytest.fixture(scope="module")
def files(spoken, tmp_path_factory):
    return converted_files(*spoken, FRAMES, tmp_path_factory.mktemp("files"))


def test_the_files_are_what_the_converters_make_of_the_decoder(spoken, files):
    half, eight = files
    types = {one.data_type for one in onnx.load(half.path).graph.initializer}
    assert onnx.TensorProto.FLOAT16 in types
    assert onnx.TensorProto.FLOAT16 not in {one.data_type for one in onnx.load(half.original).graph.initializer}
    kinds = {node.op_type for node in onnx.load(eight.path).graph.node}
    assert {"QuantizeLinear", "DequantizeLinear", "Conv", "ConvTranspose"} <= kinds
    assert sorted(path.name for path in half.path.parent.iterdir()) == [
        *("decoder.onnx", "decoder_int8.onnx", "source.onnx", "source_float16.onnx")
    ]
    (audio,) = run_once(onnx.load(eight.original), eight.inputs).values()
    assert audio.shape == (1, 600 * FRAMES)
    (signal,) = run_once(onnx.load(half.original), half.inputs).values()
    assert signal.shape == (1, 600 * spoken[1].frames)


def test_originals_are_pytorchs_and_converted_files_are_not(spoken, files):
    half, eight = files
    source = heard_source(*spoken, {"float32": half.original, "float16": half.path})
    decoder = heard_decoder(*spoken, FRAMES, {"float32": eight.original, "int8": eight.path})
    assert source.levels["float32"] > 50  # dB
    assert decoder.levels["float32"] > 80
    assert source.levels["float16"] < 20
    assert decoder.levels["int8"] < 40
    assert list(source.versions) == ["PyTorch", "float32", "float16"]
    assert {audio.shape for audio in decoder.versions.values()} == {(600 * FRAMES,)}
    assert {audio.shape for audio in source.versions.values()} == {(600 * spoken[1].frames,)}
    sizes = {row["file"]: row["size (MB)"] for row in decoder.rows}
    assert sizes["int8"] < sizes["float32"] / 2


def test_a_file_at_which_the_runtime_stops_gives_nothing(spoken, files, tmp_path):
    model = onnx.load(files[0].original)
    del model.graph.node[:]
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([7, 7]), "unfit"))
    model.graph.node.append(onnx.helper.make_node("Reshape", ["f0", "unfit"], [model.graph.output[0].name]))
    onnx.save(model, tmp_path / "unfit.onnx")
    heard = heard_source(*spoken, {"unfit": tmp_path / "unfit.onnx", "float32": files[0].original})
    assert heard.levels["unfit"] == float("-inf")
    assert list(heard.versions) == ["PyTorch", "float32"]
    assert [row["the runtime"].split(":")[0] for row in heard.rows if row["file"] == "unfit"] == ["ONNX Runtime stops"]
    assert [row["the runtime"] for row in heard.rows if row["file"] == "float32"] == ["runs it"]


def test_a_file_that_is_not_finite_has_no_level(spoken, files, tmp_path):
    model = onnx.load(files[1].original)
    output = model.graph.output[0].name
    maker = next(node for node in model.graph.node if output in node.output)
    maker.output[0] = "before"
    model.graph.node.append(onnx.helper.make_node("Div", ["before", "nought"], [output]))
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.float32(0), "nought"))
    onnx.save(model, tmp_path / "broken.onnx")
    heard = heard_decoder(*spoken, FRAMES, {"broken": tmp_path / "broken.onnx"})
    assert np.isnan(heard.levels["broken"])


def test_levels_of_noises_add_up_as_powers():
    assert added(20.0) == pytest.approx(20)
    assert added(30.0, 30.0) == pytest.approx(30 - 10 * np.log10(2))
    assert added(12.0, float("inf")) == pytest.approx(12)
    assert np.isnan(added(float("nan"), 20.0))


def test_frames_that_the_utterance_has_not_are_refused(spoken, tmp_path):
    refused("do not exist", converted_files, *spoken, 10_000, tmp_path)
