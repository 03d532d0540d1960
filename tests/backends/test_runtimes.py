"""What is particular to one runtime; what they share is in test_contract.py."""

import re
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from kokoro_nb.backends import backend
from kokoro_nb.backends.exported import export_program
from kokoro_nb.faults import Fault, plant
from tests.backends.small import Layers, Of, present
from tests.faults import other_kinds  # noqa: F401  (adds its kinds)

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


def test_what_onnx_runtime_gave_does_not_keep_its_memory(tmp_path):
    onnxruntime = present("onnxruntime")
    program = onnxruntime.load(onnxruntime.export(Layers(nn.Conv1d(3, 200, 3)), X, tmp_path))
    (theirs,) = program.session.run(None, {program.artifact.inputs[0].name: X["x"].numpy()})
    assert not theirs.flags.owndata, "else it need not be copied any more"
    assert program.run(X)["output"].flags.owndata
    assert program.trace(X).outputs["output"].flags.owndata


MODULE_OF = {
    "onnxruntime": "onnxruntime",
    "executorch-xnnpack": "executorch.exir",
    "coreml": "coremltools",
    "tvm": "tvm",
}


@pytest.mark.parametrize("name", MODULE_OF)
def test_a_runtime_that_is_not_installed_says_so_and_its_export_is_a_record(name, tmp_path, monkeypatch):
    backend, exported = present(name), export_program(Layers(nn.Conv1d(3, 200, 3)), X)
    for loaded in [one for one in sys.modules if one.startswith("tvm.") and name == "tvm"]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, MODULE_OF[name], None)  # importing it now raises ImportError
    assert re.search(r"cannot be used here .*install it with pip install 'kokoro_nb\[\w+\]'", backend.available())
    if name != "onnxruntime":  # which PyTorch's exporter does without
        failure = backend.export(exported, X, tmp_path)
        assert (failure.rung, failure.error) == ("lowered", "ModuleNotFoundError")


INPUTS = {"x": torch.randn(1, 4, 6, generator=torch.Generator().manual_seed(0))}


def _halves(x):
    first, second = torch.sin(x).chunk(2, dim=1)
    return first * 2 + second


def _two_ways(x):
    """Two operators of one kind on the same tensor: which is which cannot be told by what they read."""
    y = torch.sin(x)
    across, along = y.chunk(2, dim=1), y.chunk(2, dim=2)
    return torch.cat([across[0] - across[1], torch.zeros(1, 2, 6)], dim=1).sum() + (along[0] * along[1]).sum()


@pytest.fixture
def traced(tmp_path):
    def make(module, *faults):
        exported, runtime = export_program(module, INPUTS), backend("onnxruntime")
        for fault in faults:
            exported = plant(exported, fault)
        return runtime.load(runtime.export(exported, INPUTS, tmp_path)).trace(INPUTS, keep="full")

    return make


@pytest.mark.parametrize(("faults", "order"), [((), 1), ((Fault("swapped_results", ":split"),), -1)])
def test_each_result_of_a_split_is_found_in_whatever_order_they_are_given(traced, faults, order):
    found, (first, second) = traced(Of(_halves), *faults).values, np.split(np.sin(INPUTS["x"].numpy()), 2, 1)[::order]
    np.testing.assert_allclose(found[":split"], first, rtol=1e-6)
    np.testing.assert_allclose(found[":split#2"], second, rtol=1e-6)


@pytest.mark.parametrize("ends", [False, True], ids=["inside", "as the output"])
def test_bfloat16_which_numpy_lacks_comes_as_float32(traced, ends):
    trace = traced(Of(lambda x: x.tanh().bfloat16() if ends else x.tanh().bfloat16().reshape(4, 6).float()))
    right = INPUTS["x"].tanh().bfloat16().float().numpy()
    assert trace.missing == ()
    for found in (trace.values[":_to_copy"], trace.outputs["output"]):
        assert found.dtype == np.float32
        np.testing.assert_allclose(found.reshape(right.shape), right, rtol=2**-8)


def test_what_cannot_be_told_apart_is_missing(traced):
    trace = traced(Of(_two_ways))
    expected = np.sin(INPUTS["x"].numpy())
    halves = {":split": expected[:, :2], ":split#2": expected[:, 2:]}
    halves |= {":split#3": expected[:, :, :3], ":split#4": expected[:, :, 3:]}
    for name, value in halves.items():
        assert name in trace.missing or np.allclose(trace.values[name], value, rtol=1e-6)


def _apart(x):
    """What ONNX has no single operator for: each piece is cut out by itself, and the first one is the output."""
    first, second = torch.sin(x).permute(1, 0, 2)[:2].unbind(0)
    return first, second * 2


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(6, 3, num_layers=2, batch_first=True)

    def forward(self, x):
        return self.lstm(x)[1][0] * 2


def test_pieces_that_are_cut_out_one_by_one_are_reported_apart(traced):
    found = traced(Of(_apart)).values
    for name, place in ((":unbind", 0), (":unbind#2", 1)):
        np.testing.assert_allclose(found[name], np.sin(INPUTS["x"].numpy())[:, place], rtol=1e-6)


def test_the_state_of_a_stack_of_lstms_is_found(traced):
    torch.manual_seed(0)
    module = Recurrent().eval()
    with torch.no_grad():
        expected = module.lstm(INPUTS["x"])[1][0].numpy()
    np.testing.assert_allclose(traced(module).values["lstm:lstm"], expected, rtol=1e-5, atol=1e-6)
