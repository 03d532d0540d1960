import pytest
import torch
from torch import nn

from kokoro_nb.errors import InputError
from kokoro_nb.faults import nearly_constant, planted


def test_both_are_removed_after_an_error():
    module = nn.Conv1d(2, 3, 1)
    before = module.bias.detach().clone()

    def fail(fault, channel, value):
        with fault:
            assert module.bias[channel] == value
            raise RuntimeError("inside")

    for case in ((planted(module, "bias", 2, 1e9), 2, 1e9), (nearly_constant(module, 1), 0, 1.0)):
        with pytest.raises(RuntimeError, match="inside"):
            fail(*case)
        assert torch.equal(module.bias, before)


def test_nearly_constant_channels_vary_next_to_nothing_and_come_back_bit_for_bit():
    convolution = nn.Conv1d(4, 6, 3)
    x = torch.linspace(-1, 1, 80).sin().reshape(1, 4, 20)
    before = [parameter.detach().clone() for parameter in convolution.parameters()]
    expected = convolution(x)
    with nearly_constant(convolution, 3):
        found = convolution(x)
    assert found[0, :3].std(-1).max() < 1e-4 < expected[0, :3].std(-1).min()
    torch.testing.assert_close(found[0, :3].mean(-1), torch.tensor([1.0, 2.0, 3.0]), rtol=0, atol=1e-4)
    torch.testing.assert_close(found[0, 3:], expected[0, 3:], rtol=0, atol=0)
    assert all(torch.equal(a, b) for a, b in zip(convolution.parameters(), before, strict=True))


@pytest.mark.parametrize(
    ("fault", "match"),
    [
        (planted(nn.Conv1d(2, 3, 1), "nothing", 0), "no parameter"),
        (planted(nn.Conv1d(2, 3, 1), "bias", 3), "no channel 3"),
        (nearly_constant(nn.Conv1d(1, 2, 1, bias=False), 1), "not both a weight and a bias"),
        (nearly_constant(nn.Conv1d(1, 2, 1), 3), "has 2 channels, not 3"),
    ],
)
def test_what_a_module_does_not_have_is_refused(fault, match):
    with pytest.raises(InputError, match=match):
        fault.__enter__()
