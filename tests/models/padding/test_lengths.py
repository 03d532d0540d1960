import pytest
import torch

from kokoro_nb.errors import InputError
from kokoro_nb.models.padding import RATES, of_frames, of_tokens


def test_each_rate_has_its_own_buffer_and_its_own_count():
    valid = of_frames(5, torch.tensor([2]))
    counts = {room: int(valid.inside(room).sum()) for room in (5, 10, 100, 601, 3000)}
    assert counts == {5: 2, 10: 4, 100: 40, 601: 241, 3000: 1200}


@pytest.mark.parametrize("room", [1, 2, 20, 24, 1800])
def test_no_two_rates_share_a_size(room):
    assert len({rate * room + more for rate, more in RATES}) == len(RATES)


def test_a_buffer_of_another_size_is_refused():
    with pytest.raises(InputError, match="A buffer of 7 positions belongs to none of the rates here, which have 5"):
        of_tokens(5, torch.tensor([2])).mask(7, torch.float32)


def test_valid_positions_come_first():
    valid = of_tokens(4, torch.tensor([3]))
    assert valid.inside(4).tolist() == [True, True, True, False]
    assert valid.outside(4).tolist() == [False, False, False, True]
    assert valid.mask(4, torch.float32).tolist() == [1, 1, 1, 0]


def test_the_reversal_turns_the_valid_positions_round_exactly():
    x = torch.randn(1, 7, 3, generator=torch.Generator().manual_seed(0))
    turned = of_tokens(7, torch.tensor([5])).reversal(7, x.dtype) @ x
    assert torch.equal(turned[:, :5], x[:, :5].flip(1))
    assert (turned[:, 5:] == 0).all()


@pytest.mark.parametrize("axis", [1, 2, -1])
def test_what_stands_behind_is_dropped_even_where_it_is_not_finite(axis):
    x = torch.ones(1, 4, 4)
    x.select(axis, 3).fill_(float("nan"))
    zeroed = of_tokens(4, torch.tensor([3])).zeroed(x, axis)
    expected = torch.ones(1, 4, 4)
    expected.select(axis, 3).fill_(0)
    assert torch.equal(zeroed, expected)


def test_a_fault_in_the_valid_part_is_not_hidden():
    x = torch.tensor([[1.0, float("inf"), 2.0]])
    assert of_tokens(3, torch.tensor([2])).zeroed(x)[0, 1] == float("inf")


@pytest.mark.parametrize("room", [1, 24, 2881, 216_001])
def test_the_weights_of_a_mean_round_nothing_and_fit_float16(room):
    weights, total = of_tokens(room, torch.tensor([room])).weights(room, torch.float32)
    value = float(weights.flatten()[0])
    assert torch.frexp(torch.tensor(value))[0] == 0.5  # a power of two
    assert float(total) == room * value <= 256
    assert value >= 2.0**-14  # float16's smallest normal number


def test_what_was_made_once_is_used_again():
    valid = of_tokens(4, torch.tensor([3]))
    assert valid.mask(4, torch.float32) is valid.mask(4, torch.float32)
    assert valid.mask(4, torch.float64).dtype == torch.float64
