"""The work in small modules against arithmetic spelled out."""

import pytest
import torch
from torch import nn

from kokoro_nb.benchmarks.work import CONV, ELEMENTWISE, LSTM, MATMUL, STFT, Ceilings, count, family
from tests.backends.small import First


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(3, 4, 5, padding=2)
        self.up = nn.ConvTranspose1d(4, 4, 5, stride=3, groups=4)
        self.linear = nn.Linear(8, 2)

    def forward(self, x):
        return self.linear(torch.sin(self.up(self.conv(x)))[:, :, :8])


def test_each_layer_is_counted():
    found = count(Layers(), {"x": torch.zeros(1, 3, 10)})
    flops = {row["family"]: row["flops"] for row in found.families()}
    # 10 positions, 4 x 3 x 5 weights; 10 positions that go in, 4 groups of 1 x 5 weights; 4 rows of 8 by 8 x 2
    assert flops[CONV] == 2 * (10 * 4 * 3 * 5 + 10 * 4 * 5)
    assert flops[MATMUL] == 2 * 4 * 8 * 2
    assert flops[ELEMENTWISE] == 0
    assert found.flops == sum(flops.values())
    # weights and biases of the three layers, 4 bytes each
    assert found.weights == 4 * ((60 + 4) + (20 + 4) + (16 + 2))
    # 3 x 10 go in, 4 x 2 come out
    assert found.given == 4 * (30 + 8)
    assert found.least == found.weights + found.given


def test_bytes_are_read_and_written_once_by_each_operator_and_views_move_none():
    found = count(nn.Sequential(nn.Flatten(0), nn.ReLU(), nn.Unflatten(0, (2, 5))), {"input": torch.zeros(1, 10)})
    assert [each.moved for each in found.operations] == [4 * (10 + 10)]
    assert found.moved == 80
    assert found.weights == 0


def test_a_tensor_that_repeats_its_elements_is_read_once():
    class Repeated(nn.Module):
        def forward(self, x):
            return x.expand(100, 4) + 1

    (operation,) = count(Repeated(), {"x": torch.zeros(1, 4)}).operations
    assert operation.moved == 4 * (4 + 400)


@pytest.mark.parametrize(("onednn", "kind"), [(True, LSTM), (False, MATMUL)])  # one operator, or its products
def test_an_lstm_is_counted(onednn, kind):
    if onednn and not torch.backends.mkldnn.is_available():
        pytest.skip("PyTorch was built without oneDNN here.")

    layer = First(nn.LSTM(6, 5, batch_first=True, bidirectional=True))
    with torch.backends.mkldnn.flags(enabled=onednn):
        found = count(layer, {"x": torch.zeros(1, 7, 6)})
    # two directions, 7 steps, four gates of 5, each from 6 inputs and 5 states
    (row,) = (row for row in found.families() if row["family"] == kind)
    assert row["flops"] == 2 * 2 * 7 * 4 * 5 * (6 + 5)


@pytest.mark.parametrize(
    ("name", "kernel", "kind"),
    [
        ("aten.convolution.default", (11, 1, 20), STFT),
        ("aten.convolution.default", (512, 1, 3), CONV),
        ("NhwcFusedConv", (), CONV),
        ("aten.atan2.default", (), ELEMENTWISE),
    ],
)
def test_families(name, kernel, kind):
    assert family(name, kernel) == kind


def test_the_floor_is_the_higher_of_two_roofs():
    found = count(Layers(), {"x": torch.zeros(1, 3, 10)})
    slow_memory, slow_products = Ceilings(1e6, 1e-9, 1), Ceilings(1e-9, 1e6, 1)
    assert found.floor(slow_memory) == pytest.approx(found.least)
    assert found.floor(slow_products) == pytest.approx(found.flops)
    assert found.separate_floor(slow_memory) == pytest.approx(found.moved)
