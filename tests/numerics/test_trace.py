import copy

import numpy as np
import pytest
import torch
from torch import nn

from kokoro_nb.errors import InputError
from kokoro_nb.numerics.trace import tapped, trace_of


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 2)

    def forward(self, x):
        hidden = self.first(x)
        out = self.second(hidden)
        hidden += 1  # in place, after it was tapped
        return out


def test_taps_are_the_blocks_outputs_and_the_output_is_what_it_was():
    module, x = Small(), torch.randn(1, 3)
    outputs = tapped(module, ["first", "second"])(x)
    assert list(outputs) == ["first", "second", "output"]
    assert torch.equal(outputs["first"], module.first(x))
    assert torch.equal(outputs["output"], module(x))
    assert not module.first._forward_hooks


def test_a_copy_taps_itself():
    module, x = Small(), torch.randn(1, 3)
    twin = copy.deepcopy(tapped(module, ["first"]))
    nn.init.zeros_(module.first.weight)
    assert torch.equal(twin(x)["first"], twin.module.first(x))


def test_unknown_part():
    with pytest.raises(InputError, match="no part 'third'"):
        tapped(Small(), ["third"])


def test_trace_orders_the_output_last_and_tells_what_is_missing():
    trace = trace_of("eager", {"output": np.ones(2), "first": np.ones(3)}, ["first", "second"])
    assert [tap.name for tap in trace.taps] == ["first", "output"]
    assert trace.missing == ("second",)
    assert trace["first"].statistics.shape == (3,)
    with pytest.raises(InputError, match="no tap 'second'"):
        trace["second"]


def test_first_nonfinite_is_the_first_in_order_and_infinity_counts():
    outputs = {"a": np.ones(2), "b": np.array([1, np.inf]), "c": np.full(2, np.nan), "output": np.full(2, np.nan)}
    assert trace_of("eager", outputs).first_nonfinite.name == "b"
    assert trace_of("eager", {"a": np.ones(2)}).first_nonfinite is None
