"""Every kind of fault does what it says, and nothing else."""

import pytest
import torch
from torch.nn import functional

from kokoro_nb.errors import InputError
from kokoro_nb.faults import KINDS, Fault, plant

CONV, SUB, VARIANCE, SCALED = "conv:conv1d", "norm:sub", "norm:mean#2", "norm:mul#2"


def _weighted(weight):
    """Return what the convolution gives with another weight."""
    return lambda v, p, x: functional.conv1d(x, weight(p["conv.weight"]), p["conv.bias"], padding=1)


# operator, and what it gives then, by PyTorch's own arithmetic on what the healthy program computed before it:
# `v` holds the results of its operators, `p` its parameters, `x` is its input
EXPECTED = {
    "sign_flip": (SUB, lambda v, p, x: -v[SUB]),
    "scaled": (SUB, lambda v, p, x: v[SUB] * 1.01),
    "half_rounding": (SUB, lambda v, p, x: v[SUB].half().float()),
    "saturated": (SUB, lambda v, p, x: v[SUB].clamp(-0.25, 0.25)),
    "shifted": (SUB, lambda v, p, x: torch.cat([v[SUB][..., 1:], v[SUB][..., -1:]], -1)),
    "swapped_results": (":split", lambda v, p, x: v[":split#2"]),
    "wrong_epsilon": ("norm:add", lambda v, p, x: v[VARIANCE] + 1e-2),
    "one_pass_variance": (VARIANCE, lambda v, p, x: (v[CONV] ** 2).mean(-1, True) - v[CONV].mean(-1, True) ** 2),
    "wrong_scalar": (":add#4", lambda v, p, x: v[":transpose#2"] + 3.3),
    "wrong_activation": ("activation:leaky_relu", lambda v, p, x: functional.leaky_relu(v[":add#2"], 0.01)),
    "wrong_function": (":sin", lambda v, p, x: v[":add#3"].cos()),
    "overflow": (":exp", lambda v, p, x: torch.full((1, 12, 4), torch.inf)),
    "unclamped": (":clamp", lambda v, p, x: v["gelu:gelu"]),
    "swapped_operands": (SUB, lambda v, p, x: v["norm:mean"] - v[CONV]),
    "dropped_bias": (CONV, lambda v, p, x: functional.conv1d(x, p["conv.weight"], padding=1)),
    "lost_operand": (":add#3", lambda v, p, x: v["activation:leaky_relu"]),
    "stale_input": (SCALED, lambda v, p, x: v[CONV] * v["norm:rsqrt"]),
    "short_reduction": ("norm:mean", lambda v, p, x: v[CONV][..., :-1].mean(-1, True)),
    "wrong_dilation": (
        CONV,
        lambda v, p, x: functional.conv1d(x, p["conv.weight"], p["conv.bias"], padding=2, dilation=2),
    ),
    "off_by_one": (":slice", lambda v, p, x: v[":pad"][..., 2:14]),
    "wrong_padding": (":pad", lambda v, p, x: functional.pad(v[":cat"], (2, 2))),
    "transposed_weight": (CONV, _weighted(lambda w: w.transpose(0, 1))),
    "reversed_weight": (CONV, _weighted(lambda w: w.flip(-1))),
    "half_weight": (CONV, _weighted(lambda w: w.half().float())),
}
# what these do is seen in one channel, or one element of a weight, which the seed chooses
CHANNELS = {
    "nan_channel": lambda given, healthy: torch.isnan(given).all(),
    "infinite_channel": lambda given, healthy: (given == torch.inf).all(),
    "zeroed_channel": lambda given, healthy: (given == 0).all(),
    "zeroed_weight": lambda given, healthy: (given == given[0, 0]).all(),  # the bias is left
    "perturbed_weight": lambda given, healthy: not torch.equal(given, healthy),
}


def test_every_kind_is_tested_here():
    assert {*EXPECTED, *CHANNELS} == set(KINDS)


def test_every_kind_says_what_it_does():
    assert all(kind.what.endswith((".", ":")) and len(kind.what) > 10 for kind in KINDS.values())


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
    assert faulty.keys() >= set(healthy) - {"norm:mul"}  # the squares of the two-pass variance are computed no more


@pytest.mark.parametrize("kind", CHANNELS)
def test_a_fault_of_a_channel_leaves_the_others_alone(kind, exported, healthy, values):
    chosen = set()
    for seed in range(8):
        given, before = values(plant(exported, Fault(kind, CONV, seed)))[CONV], healthy[CONV]
        bad = [c for c in range(4) if not torch.equal(given[:, c], before[:, c])]
        assert len(bad) == 1
        assert CHANNELS[kind](given[:, bad], before[:, bad])
        chosen |= set(bad)
    assert len(chosen) > 1  # the seed decides


def test_swapped_results_are_both_wrong(exported, healthy, values):
    faulty = values(plant(exported, Fault("swapped_results", ":split")))
    assert torch.equal(faulty[":split"], healthy[":split#2"])
    assert torch.equal(faulty[":split#2"], healthy[":split"])


@pytest.mark.parametrize(
    ("kind", "operator"),
    [("dropped_bias", SUB), ("swapped_results", ":split#2"), ("nan_channel", ":split"), ("overflow", ":sin")],
)
def test_a_kind_is_refused_where_it_does_not_fit(kind, operator, exported):
    with pytest.raises(InputError, match=f"There can be no {kind} at '{operator}'"):
        plant(exported, Fault(kind, operator))
