import pytest
import torch
from kokoro.istftnet import UpSample1d
from torch import nn

from kokoro_nb.errors import InputError
from kokoro_nb.models.padding import RATES, Valid, of_frames, open_length, within

VALID, ROOM = 5, 9


def _layers():
    torch.manual_seed(0)
    affine = nn.InstanceNorm1d(3, affine=True)
    affine.weight.data, affine.bias.data = torch.randn(3), torch.randn(3)
    return {
        "affine norm": affine,
        "convolution": nn.Conv1d(3, 4, 3, padding=1),
        "position by position": nn.Conv1d(3, 4, 1),
        "transposed": nn.ConvTranspose1d(3, 4, 3, padding=1),
    }


def _padded(x, fill):
    return nn.functional.pad(x, (0, ROOM - VALID), value=fill)


@pytest.mark.parametrize("name", _layers())
@torch.no_grad()
def test_a_layer_in_a_longer_buffer_computes_the_same(name):
    layer = _layers()[name].double().eval()
    x = torch.randn(1, 3, VALID, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    expected, wide = layer(x), _padded(x, 3.0)
    with within(layer, Valid(ROOM, torch.tensor([VALID]))):
        found = layer(wide)
    torch.testing.assert_close(found[..., :VALID], expected, rtol=1e-12, atol=1e-12)
    if name != "position by position":  # the control: left as it is, the layer reads the padding
        assert not torch.allclose(layer(wide)[..., :VALID], expected, atol=1e-3)


@torch.no_grad()
def test_both_directions_of_an_lstm_stop_at_the_end():
    torch.manual_seed(0)
    layer = nn.LSTM(3, 4, batch_first=True, bidirectional=True).double()
    x = torch.randn(1, VALID, 3, dtype=torch.float64)
    expected, wide = layer(x)[0], nn.functional.pad(x, (0, 0, 0, ROOM - VALID))
    with within(layer, Valid(ROOM, torch.tensor([VALID]))):
        found, _ = layer(wide)
    torch.testing.assert_close(found[:, :VALID], expected, rtol=1e-12, atol=1e-12)
    naive = layer(wide)[0][:, :VALID]
    torch.testing.assert_close(naive[..., :4], expected[..., :4])  # the first direction never read it
    error = (naive - expected)[..., 4:].abs().amax(dim=(0, 2))
    assert error[-1] > 3 * error[0] > 0  # the second begins in the padding, and forgets it on its way


def test_each_rate_has_its_own_buffer_and_its_own_count():
    valid = of_frames(5, torch.tensor([2]))
    counts = {room: int(valid.inside(room).sum()) for room in (5, 10, 100, 601, 3000)}
    assert counts == {5: 2, 10: 4, 100: 40, 601: 241, 3000: 1200}
    with pytest.raises(InputError, match="A buffer of 7 positions belongs to none of the rates here, which have 5"):
        valid.mask(7, torch.float32)
    for room in (1, 2, 20, 24, 1800):
        assert len({rate * room + more for rate, more in RATES}) == len(RATES), "no two share a size"


@pytest.mark.parametrize("axis", [1, -1])
def test_what_stands_behind_is_dropped_even_where_it_is_not_finite(axis):
    x, expected = torch.ones(1, 4, 4), torch.ones(1, 4, 4)
    x.select(axis, 3).fill_(float("nan"))
    expected.select(axis, 3).fill_(0)
    assert torch.equal(Valid(4, torch.tensor([3])).zeroed(x, axis), expected)


@pytest.fixture(scope="module")
def lstm():
    torch.manual_seed(0)
    return nn.LSTM(6, 4, batch_first=True, bidirectional=True).eval()


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
