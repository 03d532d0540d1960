"""Few bits imitated: how far a number moves, and which layers of a small vocoder tolerate it."""

import pytest
import torch
from torch import nn

from kokoro_nb.benchmarks.imitated_precision import (
    audio_of,
    in_int8,
    int8_effects,
    rounded_activation,
    rounded_weight,
    tolerant_layers,
    weight_bits,
)
from kokoro_nb.listening.spectrum import log_spectral_distance


def _drawn(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("group", [None, 5, 64])
@pytest.mark.parametrize("bits", [4, 8])
def test_a_weight_moves_by_half_a_step_at_most(bits, group):
    weight = _drawn(6, 4, 3)
    found = rounded_weight(weight, bits, group)
    step = weight.abs().amax((1, 2), keepdim=True) / (2 ** (bits - 1) - 1)  # of the widest group
    assert found.shape == weight.shape
    assert ((found - weight).abs() <= step / 2 * 1.001).all()
    assert (found != weight).any()


def test_the_largest_weight_and_zero_stay():
    weight = torch.tensor([[0.0, -3.0, 1.0], [0.0, 0.0, 0.0]])
    assert torch.equal(rounded_weight(weight, 8)[:, :2], weight[:, :2])
    assert torch.equal(rounded_weight(weight, 8)[1], weight[1])


@pytest.mark.parametrize("shift", [-5.0, 0.0, 5.0])
def test_activations_have_so_many_steps_and_zero_among_them(shift):
    values = _drawn(1000) + shift
    found = rounded_activation(torch.cat([values, torch.zeros(1)]))
    assert found[-1] == 0
    assert len(found.unique()) <= 256
    reach = values.max().clamp(min=0.0) - values.min().clamp(max=0.0)
    assert (found[:-1] - values).abs().max() <= reach / 255 * 0.501


def test_what_is_constant_stays():
    assert torch.equal(rounded_activation(torch.zeros(5)), torch.zeros(5))


class Vocoder(nn.Module):
    """A convolution, and one whose result is an exponent, as the last of the decoder is."""

    def __init__(self):
        super().__init__()
        with torch.random.fork_rng([]):
            torch.manual_seed(0)
            self.body, self.last = nn.Conv1d(1, 8, 9, padding=4), nn.Conv1d(8, 1, 9, padding=4)
        self.last.weight.data *= 30

    def forward(self, x):
        return torch.exp(self.last(torch.tanh(self.body(x)))).squeeze(1) * x.squeeze(1)


GIVEN = {"x": _drawn(1, 1, 8192)}


@pytest.mark.parametrize("flags", [("avx2",), ("avx2", "avx512_vnni")])  # weights of 7 bits, of 8
def test_the_layer_whose_output_is_an_exponent_tolerates_it_least(processor_with, flags):
    processor_with(*flags)
    first, last = int8_effects(Vocoder(), GIVEN)
    assert (first.layer, last.layer) == ("body", "last")
    assert last.distance > first.distance > 0
    assert 0 < last.local_error < first.local_error  # which says the opposite
    assert last.as_dict()["alone (dB)"] == last.distance


def test_as_many_are_chosen_as_the_limit_allows():
    module = Vocoder()
    found = int8_effects(module, GIVEN)
    between = (found[0].distance + found[1].distance) / 2
    assert tolerant_layers(module, GIVEN, found, 0.0) == ()
    assert tolerant_layers(module, GIVEN, found, between) == ("body",)
    assert tolerant_layers(module, GIVEN, found, 1000.0) == ("body", "last")


def test_float32_is_back_afterwards():
    module = Vocoder()
    before = audio_of(module, GIVEN)
    with in_int8(module, ["body", "last"]):
        within = audio_of(module, GIVEN)
    assert log_spectral_distance(before[0], within[0]) > 0
    assert (audio_of(module, GIVEN) == before).all()


@pytest.mark.parametrize(
    ("flags", "bits"), [(("avx2",), 7), (("avx2", "avx512_vnni"), 8), (("avx2", "avx_vnni"), 8), (("asimd",), 8)]
)
def test_a_weight_has_a_bit_less_where_sums_overflow(processor_with, flags, bits):
    processor_with(*flags)
    assert weight_bits() == bits
