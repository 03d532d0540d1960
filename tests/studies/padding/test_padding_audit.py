import numpy as np
import pytest
import torch
from torch import nn

from kokoro_nb.errors import InputError
from kokoro_nb.models.padding import Valid, within
from kokoro_nb.studies.padding.padding_audit import NormVariance, norm_variances, padding_audit

VALID = 6


class Block(nn.Module):
    """Two branches, each of which ends in a convolution; one of them is normalised before it."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.norm = nn.Conv1d(2, 3, 1), nn.InstanceNorm1d(3)
        self.wide = nn.Conv1d(3, 3, 3, padding=1)
        self.other = nn.Conv1d(2, 3, 3, padding=1)

    def forward(self, x):
        return self.wide(torch.tanh(self.norm(self.first(x)))) + self.other(x) * torch.tensor(2.0)


class ExactBlock(Block):
    """The same with the length as an input."""

    def forward(self, x, length):
        with within(self, Valid(x.shape[2], length)):
            return super().forward(x)


def _widen(inputs, room):
    x = inputs["x"]
    return {**inputs, "x": nn.functional.pad(x, (0, room - x.shape[2]))}


@pytest.fixture
def inputs():
    return {"x": torch.randn(1, 2, VALID, generator=torch.Generator().manual_seed(1))}


def test_the_norm_is_named_and_nothing_behind_it(inputs):
    leaks = padding_audit(Block().eval(), inputs, VALID, (8, 24), widen=_widen)
    assert [(leak.bucket, leak.padding) for leak in leaks] == [(8, 0.25), (24, 0.75)]
    assert {leak.operator for leak in leaks} == {"norm:instance_norm"}
    assert all(leak.changed > 0.9 and leak.change > 1e-2 for leak in leaks)  # a statistic moves everything
    assert leaks[0].as_dict()["change (of peak)"] == leaks[0].change


def test_padding_that_a_convolution_reads_changes_the_last_positions(inputs):
    class Filled(Block):
        def forward(self, x):
            return self.wide(self.first(x))  # behind the end stands the bias of the first, no zero

    (leak,) = padding_audit(Filled().eval(), inputs, VALID, (8,), widen=_widen)
    assert leak.operator == "wide:conv1d"
    assert leak.changed == pytest.approx(1 / VALID)


def test_what_is_exact_has_no_leak(inputs):
    wide = {**inputs, "length": torch.tensor([VALID])}
    assert padding_audit(ExactBlock().eval(), wide, VALID, (8, 24), limit=1e-6, widen=_widen) == ()


@pytest.mark.parametrize(("step", "names"), [(2e-5, ["mul"]), (5e-6, [])])
def test_what_rounding_may_change_is_no_leak(step, names, inputs):
    class Nudged(nn.Module):
        def forward(self, x):
            return x * (1 + step * (x.shape[-1] - VALID))

    leaks = padding_audit(Nudged(), inputs, VALID, (7,), widen=_widen)
    assert [leak.operator.strip(":") for leak in leaks] == names
    assert all(leak.change == pytest.approx(step, rel=0.01) for leak in leaks)


def test_nan_in_the_valid_part_is_a_leak(inputs):
    def poisoned(given, room):
        wide = _widen(given, room)
        wide["x"][..., VALID:] = float("nan")
        return wide

    leaks = padding_audit(Block().eval(), inputs, VALID, (8,), widen=poisoned)
    assert [leak.operator for leak in leaks] == ["norm:instance_norm", "other:conv1d"]
    assert np.isnan(leaks[0].change)


def test_a_bucket_that_holds_no_padding_is_refused(inputs):
    for buckets in ((6,), (12, 5), ()):
        with pytest.raises(InputError, match=r"The buckets \[.*\] must be larger than the 6 that are valid"):
            padding_audit(Block(), inputs, VALID, buckets, widen=_widen)


def test_the_variance_of_a_norm_falls_with_the_share_of_padding(inputs):
    block = Block().eval()
    rows = norm_variances(block, inputs, VALID, (12, 60), widen=_widen)
    assert [(row.norm, row.bucket, row.padding) for row in rows] == [("norm", 12, 0.5), ("norm", 60, 0.9)]
    with torch.no_grad():
        valid = block.first(inputs["x"])[0].double()
    tail = block.first.bias.detach().double()
    for row in rows:
        share = VALID / row.bucket  # of two groups: within the one, and between their means
        between = share * (1 - share) * (valid.mean(-1) - tail) ** 2
        expected = share + between / valid.var(-1, correction=0)
        np.testing.assert_allclose(row.ratio, expected.numpy(), rtol=1e-6)


def test_a_norm_is_reported_by_the_spread_of_its_channels():
    row = NormVariance("norm", 12, 0.5, np.linspace(0, 1, 21)).as_dict()
    assert row == {"norm": "norm", "padding": 0.5, "5 % of channels": 0.05, "median": 0.5, "95 %": pytest.approx(0.95)}
    assert np.isnan(NormVariance("norm", 12, 0.5, np.empty(0)).low)


@pytest.mark.parametrize(("value", "told"), [(1.0, False), (np.nan, True)])
def test_a_channel_that_is_constant_is_left_out_and_one_that_is_nan_is_not(value, told, inputs):
    block = Block().eval()
    with torch.no_grad():
        block.first.weight[0], block.first.bias[0] = 0, value
    (row,) = norm_variances(block, inputs, VALID, (12,), widen=_widen)
    assert len(row.ratio) == block.first.out_channels - (not told)
    assert np.isnan(row.low) == told
