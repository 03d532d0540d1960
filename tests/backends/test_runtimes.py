"""What is particular to one runtime; what they share is in test_contract.py."""

import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from kokoro_nb.backends import BACKENDS
from kokoro_nb.backends.artefacts import FileBackend
from tests.backends.small import Layers, present

X = {"x": torch.linspace(-1, 1, 12).reshape(1, 3, 4)}


def test_onnx_keeps_large_weights_in_a_file_of_their_own(tmp_path):
    onnxruntime = present("onnxruntime")
    split = replace(onnxruntime, single_file_limit=1000)
    module = Layers(nn.Conv1d(3, 200, 3))
    one, two = onnxruntime.export(module, X, tmp_path), split.export(module, X, tmp_path)
    assert sorted(p.name for p in one.path.parent.iterdir()) == ["meta.json", "model.onnx", "taps.json"]
    files = ["meta.json", "model.onnx", "model.onnx.data", "taps.json"]
    assert sorted(p.name for p in two.path.parent.iterdir()) == files
    np.testing.assert_array_equal(*(onnxruntime.load(made).run(X)["output"] for made in (one, two)))
    data = two.path.with_name("model.onnx.data")
    assert two.size == two.path.stat().st_size + data.stat().st_size > 200 * 3 * 3 * 4
    data.write_bytes(data.read_bytes()[:-4])
    assert not split.export(module, X, tmp_path).cached


def test_onnx_names_its_inputs_and_outputs_as_we_do(tmp_path):
    class Stepped(nn.Module):
        def forward(self, x, state):
            return {"state": state + x, "audio": x}

    made = present("onnxruntime").export(Stepped(), {"x": X["x"], "state": X["x"]}, tmp_path)
    import onnx

    graph = onnx.load(made.path).graph
    assert [value.name for value in graph.input] == ["x", "state"]
    assert [value.name for value in graph.output] == ["state_out", "audio"]  # one name cannot stand for two values
    assert made.outputs == ("state", "audio")


def test_what_onnx_runtime_gave_does_not_keep_its_memory(tmp_path):
    onnxruntime = present("onnxruntime")
    program = onnxruntime.load(onnxruntime.export(Layers(nn.Conv1d(3, 200, 3)), X, tmp_path))
    (theirs,) = program.session.run(None, {program.inputs[0].name: X["x"].numpy()})
    assert not theirs.flags.owndata, "else it need not be copied any more"
    assert program.run(X)["output"].flags.owndata
    assert program.trace(X).outputs["output"].flags.owndata


@pytest.mark.parametrize(
    ("name", "package"), [("onnxruntime", "onnxruntime"), ("executorch-xnnpack", "executorch.exir")]
)
def test_a_runtime_that_is_not_installed_says_so_and_its_export_is_a_record(name, package, tmp_path, monkeypatch):
    present(name)
    monkeypatch.setitem(sys.modules, package, None)  # importing it now raises ImportError
    backend = BACKENDS[name]
    assert isinstance(backend, FileBackend)
    assert "cannot be used here" in backend.available()
    if name.startswith("executorch"):
        failure = backend.export(Layers(nn.Conv1d(3, 200, 3)), X, tmp_path)
        assert (failure.rung, failure.error) == ("lowered", "ModuleNotFoundError")
