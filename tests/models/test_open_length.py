"""The stand-ins for any length compute what the layers compute, and a mask ends both directions where the text ends."""

import pytest
import torch
from kokoro.istftnet import SineGen, UpSample1d
from torch import nn

from kokoro_nb.models.padding import open_length
from kokoro_nb.models.patches import patched


@pytest.fixture(scope="module")
def lstm():
    torch.manual_seed(0)
    return nn.LSTM(6, 4, batch_first=True, bidirectional=True).eval()


@torch.no_grad()
def test_the_scan_is_the_lstm(lstm):
    x = torch.randn(1, 9, 6)
    with open_length(lstm):
        ours = lstm(x)[0]
    assert torch.allclose(ours, lstm(x)[0], atol=1e-6)


@torch.no_grad()
def test_padding_is_not_read_by_the_scan_and_is_by_the_lstm(lstm):
    x, mask = torch.randn(1, 9, 6), torch.arange(9)[None] < 5
    with open_length(lstm, mask):
        ours = lstm(x)[0]
    right = lstm(x[:, :5])[0]
    assert torch.allclose(ours[:, :5], right, atol=1e-6)
    assert not ours[:, 5:].any()
    assert not torch.allclose(lstm(x)[0][:, :5], right, atol=1e-3)


@torch.no_grad()
@pytest.mark.parametrize("layer", [nn.Upsample(scale_factor=300), UpSample1d("half"), UpSample1d("none")])
def test_upsampling_to_the_nearest_is_the_same_to_the_bit(layer):
    x = torch.randn(1, 3, 7)
    with open_length(layer):
        ours = layer(x)
    assert torch.equal(ours, layer(x))


@torch.no_grad()
def test_the_phase_of_the_source_is_that_of_the_package():
    source = SineGen(24_000, 300, harmonic_num=8)
    hertz = (100 + 40 * torch.rand(1, 8, 1)).repeat_interleave(300, dim=1) * torch.arange(1, 10)
    with patched(source, ("ramped_phase",)):
        ours = source._f02sine(hertz)
    assert torch.allclose(ours, source._f02sine(hertz), atol=0.02)  # the package's own weights are off by 6e-5
