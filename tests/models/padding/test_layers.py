import pytest
import torch
from kokoro.istftnet import UpSample1d
from torch import nn

from kokoro_nb.models.padding import RATES, of_frames, open_length
from tests.refusals import refused


def test_each_rate_has_its_own_buffer_and_its_own_count():
    valid = of_frames(5, torch.tensor([2]))
    counts = {room: int(valid.inside(room).sum()) for room in (5, 10, 100, 601, 3000)}
    assert counts == {5: 2, 10: 4, 100: 40, 601: 241, 3000: 1200}
    refused("A buffer of 7 positions belongs to none of the rates here, which have 5", valid.mask, 7, torch.float32)
    for room in (1, 2, 20, 24, 1800):
        assert len({rate * room + more for rate, more in RATES}) == len(RATES), "no two share a size"


@torch.no_grad()
@pytest.mark.parametrize("layer", [nn.Upsample(scale_factor=300), UpSample1d("half"), UpSample1d("none")])
def test_upsampling_to_the_nearest_is_the_same_to_the_bit(layer):
    x = torch.randn(1, 3, 7)
    with open_length(layer):
        ours = layer(x)
    assert torch.equal(ours, layer(x))
