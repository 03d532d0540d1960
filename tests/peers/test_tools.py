"""The tools themselves on a weight that was changed inside an ONNX file: they find the names by themselves there."""

import importlib.util
import shutil
from pathlib import Path

import pytest
import torch
from torch import nn

from kokoro_nb.backends import backend
from kokoro_nb.backends.exported import export_program
from kokoro_nb.backends.onnx import onnx_program
from kokoro_nb.faults import edit_onnx_weight

_SPEC = importlib.util.spec_from_file_location("peers_tools", Path(__file__).with_name("tools.py"))
tools = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(tools)

pytestmark = pytest.mark.slow


class Three(nn.Module):
    """Sine, convolution, exponential."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv1d(3, 3, 3, padding=1)

    def forward(self, x):
        return torch.exp(self.conv(torch.sin(x)))


@pytest.fixture(scope="module")
def inputs():
    return {"x": torch.randn(1, 3, 10, generator=torch.Generator().manual_seed(1)).numpy()}


@pytest.fixture(scope="module")
def exported(inputs):
    return export_program(Three(), inputs)


@pytest.fixture(scope="module")
def healthy(exported, inputs, tmp_path_factory):
    return backend("onnxruntime").export(exported, inputs, tmp_path_factory.mktemp("healthy")).path


def _spoilt(healthy, folder, value):
    def change(weight):
        weight[0, 0, 0] += value
        return weight

    faulty = folder / "faulty.onnx"
    shutil.copy(healthy, faulty)
    edit_onnx_weight(faulty, "conv.weight", change)
    return faulty


def test_polygraphy_run_says_where_the_difference_begins(healthy, inputs, tmp_path):
    assert tools.run(healthy, _spoilt(healthy, tmp_path, 0.5), inputs, tmp_path) == (["conv1d", "output"], [])


def test_polygraphy_run_says_what_is_not_finite(healthy, inputs, tmp_path):
    _, invalid = tools.run(healthy, _spoilt(healthy, tmp_path, float("nan")), inputs, tmp_path)
    assert invalid == ["conv1d"]  # it stops there


def test_polygraphy_run_says_nothing_of_the_healthy_file(healthy, inputs, tmp_path):
    assert tools.run(healthy, _spoilt(healthy, tmp_path, 0.0), inputs, tmp_path) == ([], [])


def test_polygraphy_reduce_leaves_the_operator(healthy, inputs, tmp_path):
    left, checks = tools.reduce(healthy, _spoilt(healthy, tmp_path, 0.5), inputs, tmp_path)
    assert left == ["node_conv1d"]
    assert 2 <= checks <= 8


def test_the_verification_compares_the_exporter_with_itself(exported):
    import onnx_ir

    program = onnx_program(exported)
    assert tools.verification(program) == []
    weight = program.model.graph.initializers["conv.weight"]
    weight.const_value = onnx_ir.tensor(weight.const_value.numpy() * 2, name="conv.weight")
    assert tools.verification(program)[0] == "conv1d"
