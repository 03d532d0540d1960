import numpy as np
import pytest
import torch
from torch import nn

from kokoro_nb.backends import backend
from kokoro_nb.backends.exported import export_program
from kokoro_nb.faults import Fault, plant
from tests.backends.small import Of
from tests.faults import other_kinds  # noqa: F401  (adds its kinds)

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
