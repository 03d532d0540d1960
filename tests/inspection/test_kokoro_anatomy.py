"""A Kokoro is known by its structure: the parts of its nodes without any names, against the exporter's names."""

import re
from collections import Counter

import numpy as np
import onnx
import pytest

import kokoro_nb as nb
from kokoro_nb.delivery.clients.speech_program import NoiseChoice, exported_program
from kokoro_nb.inspection.kokoro_anatomy import PARTS, kokoro_parts, spoken, stated_parts
from kokoro_nb.inspection.onnx_file import read_onnx
from kokoro_nb.inspection.onnx_nodes import nodes_of
from kokoro_nb.inspection.whole_file import named_constants
from kokoro_nb.models.kokoro import load_model

WRITTEN = {  # how torch's exporter calls what is in each part, after the modules of the model
    "BERT": r"/(encoder/albert|encoder/embedding_hidden|bert_encoder|word_embeddings)",
    "duration predictor": r"/(duration_proj|lstms)",
    "text encoder": r"/(cnn|embedding/)",
    "prosody predictor": r"/([FN]\.\d|F_proj|N_proj|shared/LSTM)",
    "harmonic source": r"/decoder/generator/(m_source|f0_upsamp)",
    "decoder": r"/decoder/(encode|decode|F0_conv|N_conv|asr_res)",
    "generator": r"/decoder/generator/(resblocks|noise_res|noise_convs|ups|conv_post)",
}


@pytest.fixture(scope="module")
def file():
    """Return the whole narrow model in one file."""
    return read_onnx(exported_program(load_model("narrow", 0), NoiseChoice()))


def _parts(model, constants):
    return kokoro_parts(nodes_of(model.graph), {name: array.shape for name, array in constants.items()}.get)


def _stripped(model):
    """Return a copy in which nodes have no names, and values numbers for names."""
    copy = onnx.ModelProto.FromString(model.SerializeToString())
    names = {}

    def new(name):
        return names.setdefault(name, f"v{len(names)}") if name else ""

    for node in copy.graph.node:
        node.name = ""
        node.input[:] = [new(name) for name in node.input]
        node.output[:] = [new(name) for name in node.output]
    return copy, names


def test_parts_are_those_of_the_exporters_names_though_none_is_left(file):
    bare, names = _stripped(file.model)
    constants = {names.get(name, name): array for name, array in named_constants(file).items()}
    parts = _parts(bare, constants)
    nodes = nodes_of(file.model.graph)
    found = {node.key: parts.get(other.key) for node, other in zip(nodes, nodes_of(bare.graph), strict=True)}
    assert set(parts.values()) == set(PARTS)
    right = Counter()
    for node in nodes:
        wanted = next((part for part, form in WRITTEN.items() if re.match(form, node.key)), None)
        if wanted and node.operator not in ("Constant", "Shape", "Gather", "Concat", "Unsqueeze", "ConstantOfShape"):
            right[wanted, found.get(node.key) == wanted] += 1
    shares = {part: right[part, True] / (right[part, True] + right[part, False]) for part in WRITTEN}
    assert {part: share for part, share in shares.items() if share < 0.97} == {}


def test_what_lacks_one_bend_is_no_kokoro(file):
    for kind in ("Round", "CumSum", "Atan", "Exp"):
        model = onnx.ModelProto.FromString(file.model.SerializeToString())
        for node in model.graph.node:
            if node.op_type == kind:
                node.op_type = "Identity"
        assert _parts(model, named_constants(file)) == {}
    assert stated_parts({}) == ()


def test_audio_and_durations_are_known_by_what_they_are():
    audio, frames = spoken({"n": np.array([1.0, 2.0]), "y": np.full(1800, 0.1)})
    assert audio.size == 1800
    assert frames.tolist() == [1, 2]
    assert spoken({"ids": np.array([1])}) == (None, None)
    assert spoken({"y": np.full(1800, 0.1), "n": np.array([7, 4])})[1] is None


@pytest.mark.slow
def test_a_quieter_file_is_heard_against_the_original(file, tmp_path):
    model = onnx.ModelProto.FromString(file.model.SerializeToString())
    (last,) = [node for node in model.graph.node if "waveform" in node.output]
    last.output[0] = "loud"
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.float32(0.75), "quieter"))
    model.graph.node.append(onnx.helper.make_node("Mul", ["loud", "quieter"], ["waveform"], name="/quieter"))
    onnx.save(model, tmp_path / "quiet.onnx")
    draw = np.random.default_rng(0)
    inputs = {
        "input_ids": np.array([[0, *draw.integers(1, 178, 6), 0]]),
        "style": (0.1 * draw.standard_normal((1, 256))).astype(np.float32),
        "speed": np.ones(1, np.float32),
    }
    report = nb.inspect(tmp_path / "quiet.onnx", inputs, str(file.path))
    failed = [one.name for one in report.checks if one.verdict == "fail"]
    assert "level" in failed
    assert any(one.kind == "audible" and one.blame == "file" for one in report.findings)
    assert report.parts
