import pytest
import torch
from torch import nn

from kokoro_nb.errors import InputError
from kokoro_nb.studies.validate_steps import planted


def test_it_is_removed_after_an_error():
    module = nn.Conv1d(2, 3, 1)
    before = module.bias.detach().clone()

    def fail(fault, channel, value):
        with fault:
            assert module.bias[channel] == value
            raise RuntimeError("inside")

    with pytest.raises(RuntimeError, match="inside"):
        fail(planted(module, "bias", 2, 1e9), 2, 1e9)
    assert torch.equal(module.bias, before)


@pytest.mark.parametrize(
    ("fault", "match"),
    [
        (planted(nn.Conv1d(2, 3, 1), "nothing", 0), "no parameter"),
        (planted(nn.Conv1d(2, 3, 1), "bias", 3), "no channel 3"),
    ],
)
def test_what_a_module_does_not_have_is_refused(fault, match):
    with pytest.raises(InputError, match=match):
        fault.__enter__()
