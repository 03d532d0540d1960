"""What is heard of the difference between a file and what is right, of a file that speaks."""

import numpy as np
import onnx
import pytest

import kokoro_nb as nb
from kokoro_nb.delivery.clients.speech_program import NoiseChoice, exported_program
from kokoro_nb.inspection.inspecting import spoken
from kokoro_nb.inspection.onnx_file import read_onnx
from kokoro_nb.models.kokoro import load_model


@pytest.fixture(scope="module")
def file():
    """Return the whole narrow model in one file."""
    return read_onnx(exported_program(load_model("narrow", 0), NoiseChoice()))


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
