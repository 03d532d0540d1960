"""Every kind of fault does what it says, and nothing else."""

import pytest
import torch
from torch.nn import functional

from kokoro_nb.faults import Fault, plant
from tests.faults.other_kinds import KINDS, OTHERS
from tests.refusals import refused

CONV, SUB, VARIANCE = "conv:conv1d", "norm:sub", "norm:mean#2"


# operator, and what it gives then, by PyTorch's own arithmetic on what the healthy program computed before it:
# `v` holds the results of its operators, `p` its parameters, `x` is its input
EXPECTED = {
    "sign_flip": (SUB, lambda v, p, x: -v[SUB]),
    "scaled": (SUB, lambda v, p, x: v[SUB] * 1.01),
    "half_rounding": (SUB, lambda v, p, x: v[SUB].half().float()),
    "swapped_results": (":split", lambda v, p, x: v[":split#2"]),
    "wrong_epsilon": ("norm:add", lambda v, p, x: v[VARIANCE] + 1e-2),
    "dropped_bias": (CONV, lambda v, p, x: functional.conv1d(x, p["conv.weight"], padding=1)),
}
# what these do is seen in one channel, or one element of a weight, which the seed chooses
CHANNELS = {
    "nan_channel": lambda given, healthy: torch.isnan(given).all(),
    "zeroed_channel": lambda given, healthy: (given == 0).all(),
}


def test_every_kind_is_tested_here():
    assert {*EXPECTED, *CHANNELS} == set(KINDS) - {one.apply.__name__ for one in OTHERS[1:]}


@pytest.mark.parametrize("kind", EXPECTED)
def test_a_fault_does_what_it_says_and_nothing_before_it_changes(kind, exported, inputs, healthy, values):
    operator, expected = EXPECTED[kind]
    faulty = values(plant(exported, Fault(kind, operator)))
    parameters = dict(exported.module.named_parameters())
    torch.testing.assert_close(faulty[operator], expected(healthy, parameters, inputs["x"]))
    assert not torch.equal(faulty[operator], healthy[operator])
    order = list(healthy)
    for name in order[: order.index(operator)]:
        assert torch.equal(faulty[name], healthy[name]), name
    assert faulty.keys() >= set(healthy)


@pytest.mark.parametrize("kind", CHANNELS)
def test_a_fault_of_a_channel_leaves_the_others_alone(kind, exported, healthy, values):
    chosen = set()
    for seed in range(4):
        given, before = values(plant(exported, Fault(kind, CONV, seed)))[CONV], healthy[CONV]
        bad = [c for c in range(4) if not torch.equal(given[:, c], before[:, c])]
        assert len(bad) == 1
        assert CHANNELS[kind](given[:, bad], before[:, bad])
        chosen |= set(bad)
    assert len(chosen) > 1  # the seed decides


@pytest.mark.parametrize(
    ("kind", "operator"),
    [("dropped_bias", SUB), ("swapped_results", ":split#2"), ("nan_channel", ":split"), ("overflow", ":sin")],
)
def test_a_kind_is_refused_where_it_does_not_fit(kind, operator, exported):
    refused(f"There can be no {kind} at '{operator}'", plant, exported, Fault(kind, operator))
