"""Weights out of ONNX files as both of torch's exporters write them: bit for bit, or named."""

import json
import shutil

import onnx
import pytest
import torch
from onnx import numpy_helper

from kokoro_nb.backends.base import quietly
from kokoro_nb.delivery.clients.speech_program import NoiseChoice, exported_program
from kokoro_nb.errors import InputError
from kokoro_nb.listening.spectrum import log_spectral_distance
from kokoro_nb.models.architecture import narrow_config
from kokoro_nb.models.case import capture
from kokoro_nb.models.kokoro import load_model
from kokoro_nb.models.loading import LoadingError
from kokoro_nb.models.onnx_weights import NOT_READ, TYPES, read_onnx, recover_state
from kokoro_nb.models.patches import patched

FOLDED = ("weight_v", "weight_g")
UNREAD = tuple(f"{name}: not in the file, and not read by Kokoro" for name in NOT_READ)


@pytest.fixture(scope="module")
def whole(narrow):
    """Return the file that torch's TorchScript-based exporter makes of text to audio."""
    return exported_program(narrow, NoiseChoice())


@pytest.fixture
def copied(whole, tmp_path):
    """Return a copy with the configuration beside it."""
    (tmp_path / "config.json").write_text(json.dumps(narrow_config()), encoding="utf-8")
    return shutil.copy(whole, tmp_path / "speech.onnx")


def _changed(path, change):
    proto = onnx.load(path)
    change(proto.graph)
    onnx.save(proto, path)


def test_every_tensor_is_recovered(whole, narrow):
    (found, remarks, stored), original = recover_state(read_onnx(whole), narrow.model), narrow.model.state_dict()
    assert (remarks, stored) == (UNREAD, "float32")
    plain = [key for key in found if not key.endswith((*NOT_READ, TYPES, *FOLDED))]
    assert len(plain) > 300
    assert all(torch.equal(found[key], original[key]) for key in plain)
    assert torch.equal(found[TYPES][0], original[TYPES][0])
    norms = [key.removesuffix(".weight_v") for key in found if key.endswith("weight_v")]
    assert len(norms) == 89
    for path in norms:
        given, right = (torch._weight_norm(*(one[f"{path}.{leaf}"] for leaf in FOLDED)) for one in (found, original))
        torch.testing.assert_close(given, right, rtol=1e-6, atol=0)


def test_a_file_speaks_as_the_model_that_it_was_made_of(copied, narrow):
    kokoro = load_model(copied)
    assert kokoro.weights.label.startswith("speech (recovered from ONNX in float32; 3.9 M parameters")
    assert [row["keys"] for row in kokoro.loading.rows()][-1] == "remark"
    given, right = (capture(each, "Hi there.", g2p="espeak").tensors for each in (kokoro, narrow))
    assert torch.equal(given["durations"], right["durations"])
    for name in ("asr", "f0"):
        torch.testing.assert_close(given[name], right[name], rtol=1e-5, atol=1e-5 * float(right[name].abs().max()))
    # the source adds up its phase: equal weights within rounding give samples that differ, and the same spectrum
    assert log_spectral_distance(right["audio"].numpy(), given["audio"].numpy()) < 1.0


def test_a_filter_by_another_name_is_named_as_lost(copied):
    name = "decoder.encode.conv1.weight"

    def hide(graph):
        next(one for one in graph.initializer if one.name == name).name = "w"
        for node in graph.node:
            node.input[:] = ["w" if each == name else each for each in node.input]

    _changed(copied, hide)
    with pytest.raises(LoadingError, match=r"missing decoder\.encode\.conv1\.weight_g, .*weight_v; use") as caught:
        load_model(copied)
    assert [one.partition(":")[0] for one in caught.value.report.remarks][2:] == [
        f"decoder.encode.conv1.{leaf}" for leaf in ("weight_g", "weight_v")
    ]


def test_float16_is_said(copied):
    def halve(graph):
        for one in graph.initializer:
            value = numpy_helper.to_array(one)
            if value.dtype == "float32":
                one.CopyFrom(numpy_helper.from_array(value.astype("float16"), one.name))

    _changed(copied, halve)
    assert "recovered from ONNX in float16" in load_model(copied).weights.label


class Part(torch.nn.Module):
    """One block of the decoder and one LSTM, under their names in the model."""

    def __init__(self, model):
        super().__init__()
        self.decoder, self.predictor = model.decoder, model.predictor

    def forward(self, x, style, features):
        return self.decoder.encode(x, style), self.predictor.shared(features)[0]


def test_a_part_of_a_model_names_what_it_lacks(narrow, tmp_path):
    encode, shared = narrow.model.decoder.encode, narrow.model.predictor.shared
    inputs = torch.ones(1, encode.conv1.in_channels, 5), torch.ones(1, 128), torch.ones(1, 3, shared.input_size)
    with quietly(), patched(narrow.model):
        torch.onnx.export(Part(narrow.model).eval(), inputs, dynamo=True).save(tmp_path / "part.onnx")
    tensors, remarks, _ = recover_state(read_onnx(tmp_path / "part.onnx"), narrow.model)
    found, original = {key for key in tensors if key not in NOT_READ}, narrow.model.state_dict()
    norms = {f"decoder.encode.norm{number}.norm.{leaf}" for number in (1, 2) for leaf in ("weight", "bias")}
    assert found == {key for key in original if key.startswith(("decoder.encode", "predictor.shared"))} - norms
    assert all(torch.equal(tensors[key], original[key]) for key in found if not key.endswith(FOLDED))
    lost = dict(remark.split(": ") for remark in remarks[len(UNREAD) :])
    assert {key.partition(".")[0] for key in lost} == {key.partition(".")[0] for key in original}
    assert set(lost.values()) == {"the file has no such tensor under its name or its operator's"}


@pytest.mark.parametrize(
    ("content", "words"), [(b"", "without operators"), (b"no protobuf at all", "no whole ONNX file")]
)
def test_what_is_no_onnx_file_is_refused(tmp_path, content, words):
    (tmp_path / "w.onnx").write_bytes(content)
    with pytest.raises(InputError, match=words):
        load_model(tmp_path / "w.onnx")
