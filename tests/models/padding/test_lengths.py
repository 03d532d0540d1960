import pytest
import torch

from kokoro_nb.errors import InputError
from kokoro_nb.models.padding import RATES, Valid, of_frames


def test_each_rate_has_its_own_buffer_and_its_own_count():
    valid = of_frames(5, torch.tensor([2]))
    counts = {room: int(valid.inside(room).sum()) for room in (5, 10, 100, 601, 3000)}
    assert counts == {5: 2, 10: 4, 100: 40, 601: 241, 3000: 1200}


@pytest.mark.parametrize("room", [1, 2, 20, 24, 1800])
def test_no_two_rates_share_a_size(room):
    assert len({rate * room + more for rate, more in RATES}) == len(RATES)


def test_a_buffer_of_another_size_is_refused():
    with pytest.raises(InputError, match="A buffer of 7 positions belongs to none of the rates here, which have 5"):
        Valid(5, torch.tensor([2])).mask(7, torch.float32)


@pytest.mark.parametrize("axis", [1, 2, -1])
def test_what_stands_behind_is_dropped_even_where_it_is_not_finite(axis):
    x = torch.ones(1, 4, 4)
    x.select(axis, 3).fill_(float("nan"))
    zeroed = Valid(4, torch.tensor([3])).zeroed(x, axis)
    expected = torch.ones(1, 4, 4)
    expected.select(axis, 3).fill_(0)
    assert torch.equal(zeroed, expected)


@pytest.mark.parametrize("room", [1, 24, 2881, 216_001])
def test_the_weights_of_a_mean_round_nothing_and_fit_float16(room):
    weights, total = Valid(room, torch.tensor([room])).weights(room, torch.float32)
    value = float(weights.flatten()[0])
    assert torch.frexp(torch.tensor(value))[0] == 0.5  # a power of two
    assert float(total) == room * value <= 256
    assert value >= 2.0**-14  # float16's smallest normal number
