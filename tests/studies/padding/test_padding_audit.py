from collections import OrderedDict

import numpy as np
import pytest
import torch
from torch import nn

from kokoro_nb.models.padding import Valid, within
from kokoro_nb.studies.padding import leaks, variances
from kokoro_nb.verbs import trace
from tests.backends.small import Of
from tests.refusals import refused

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


X = torch.randn(1, 2, VALID, generator=torch.Generator().manual_seed(1))


def audited(module, room, fill=0.0, limit=1e-5, **more):
    wide = nn.functional.pad(X, (0, room - VALID), value=fill)
    return leaks(*(trace(module.eval(), {"x": x, **more}) for x in (X, wide)), limit)


@pytest.mark.parametrize("room", [8, 24])
def test_the_norm_is_named_and_nothing_behind_it(room):
    (leak,) = audited(Block(), room)
    assert leak["operator"] == "norm:instance_norm"
    assert leak["changed (of the valid elements)"] > 0.9  # a statistic moves everything
    assert leak["change (of peak)"] > 1e-2


def test_padding_that_a_convolution_reads_changes_the_last_positions():
    class Filled(Block):
        def forward(self, x):
            return self.wide(self.first(x))  # behind the end stands the bias of the first, no zero

    (leak,) = audited(Filled(), 8)
    assert leak["operator"] == "wide:conv1d"
    assert leak["changed (of the valid elements)"] == pytest.approx(1 / VALID)


def test_what_is_exact_has_no_leak():
    assert audited(ExactBlock(), 24, limit=1e-6, length=torch.tensor([VALID])) == []


@pytest.mark.parametrize(("step", "names"), [(2e-5, ["mul"]), (5e-6, [])])
def test_what_rounding_may_change_is_no_leak(step, names):
    found = audited(Of(lambda x: x * (1 + step * (x.shape[-1] - VALID))), 7)
    assert [leak["operator"].strip(":") for leak in found] == names
    assert all(leak["change (of peak)"] == pytest.approx(step, rel=0.01) for leak in found)


def test_nan_in_the_valid_part_is_a_leak():
    found = audited(Block(), 8, fill=float("nan"))
    assert [leak["operator"] for leak in found] == ["norm:instance_norm", "other:conv1d"]
    assert np.isnan(found[0]["change (of peak)"])


def test_the_variance_of_a_norm_falls_with_the_share_of_padding():
    mean = nn.Sequential(OrderedDict(norm=Of(lambda x: x.mean(-1, keepdim=True))))
    outer = nn.Sequential(OrderedDict(twice=Of(lambda x: x * 2), inner=mean))
    x = X - X.mean(-1, keepdim=True)  # about 0, as the padding is
    (row,) = variances(*(trace(outer, {"input": nn.functional.pad(x, (0, more))}) for more in (0, 3 * VALID)))
    assert row["norm"] == "inner.norm"
    assert row["median"] == pytest.approx(0.25)


def test_a_buffer_that_holds_no_padding_is_refused():
    refused("The buffer holds no padding; it must be larger than what is valid", audited, Block(), VALID)
