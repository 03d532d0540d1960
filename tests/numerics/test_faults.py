import pytest
import torch
from torch import nn

from kokoro_nb.errors import InputError
from kokoro_nb.numerics.faults import planted


def test_planted_and_removed_bit_for_bit():
    module = nn.Conv1d(2, 3, 1)
    before = module.weight.detach().clone()
    with planted(module, "weight", 1):
        assert torch.isnan(module.weight[1]).all()
        assert torch.equal(module.weight[0], before[0])
    assert torch.equal(module.weight, before)


def test_removed_after_an_error():
    module = nn.Conv1d(2, 3, 1)
    before = module.bias.detach().clone()

    def fail():
        with planted(module, "bias", 2, 1e9):
            assert module.bias[2] == 1e9
            raise RuntimeError("inside")

    with pytest.raises(RuntimeError, match="inside"):
        fail()
    assert torch.equal(module.bias, before)


@pytest.mark.parametrize(("name", "channel", "match"), [("nothing", 0, "no parameter"), ("bias", 3, "no channel 3")])
def test_bad_target(name, channel, match):
    fault = planted(nn.Conv1d(2, 3, 1), name, channel)
    with pytest.raises(InputError, match=match):
        fault.__enter__()
