from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
import torch
from kokoro.istftnet import UpSample1d
from torch import nn

from kokoro_nb.errors import InputError
from kokoro_nb.models.padding import RATES, Valid, of_frames, open_length, within


@torch.no_grad()
def test_two_threads_do_not_share_a_length():
    norm, x, together = nn.InstanceNorm1d(1), torch.tensor([[[1.0, 3.0, 9.0, 100.0]]]), Barrier(2, timeout=20)
    alone = {}
    for length in (2, 3):
        with within(norm, Valid(4, torch.tensor([length]))):
            alone[length] = norm(x)

    def run(length):
        with torch.no_grad(), within(norm, Valid(4, torch.tensor([length]))):
            together.wait()
            found = norm(x)
            together.wait()
        return length, found

    with ThreadPoolExecutor(2) as pool:
        for length, found in pool.map(run, (2, 3)):
            assert torch.equal(found, alone[length])
    assert type(norm) is nn.InstanceNorm1d


def test_each_rate_has_its_own_buffer_and_its_own_count():
    valid = of_frames(5, torch.tensor([2]))
    counts = {room: int(valid.inside(room).sum()) for room in (5, 10, 100, 601, 3000)}
    assert counts == {5: 2, 10: 4, 100: 40, 601: 241, 3000: 1200}
    with pytest.raises(InputError, match="A buffer of 7 positions belongs to none of the rates here, which have 5"):
        valid.mask(7, torch.float32)
    for room in (1, 2, 20, 24, 1800):
        assert len({rate * room + more for rate, more in RATES}) == len(RATES), "no two share a size"


@torch.no_grad()
@pytest.mark.parametrize("layer", [nn.Upsample(scale_factor=300), UpSample1d("half"), UpSample1d("none")])
def test_upsampling_to_the_nearest_is_the_same_to_the_bit(layer):
    x = torch.randn(1, 3, 7)
    with open_length(layer):
        ours = layer(x)
    assert torch.equal(ours, layer(x))
