"""A rewritten program beside what it was rewritten from: where the two part, and where they come together again."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from kokoro_nb.backends.exported import export_program
from kokoro_nb.errors import InputError
from kokoro_nb.inspection import diagnose
from kokoro_nb.locate.paired_programs import parting
from tests.backends.small import Of

X = {"x": torch.randn(1, 4, 24, generator=torch.Generator().manual_seed(0)) + 1}


class Normed(nn.Module):
    def forward(self, x):
        return F.instance_norm(torch.sin(x)) * 2


class WrittenOut(nn.Module):
    def forward(self, x):
        y = torch.sin(x)
        centred = y - y.mean(-1, keepdim=True)
        return centred * torch.rsqrt((centred * centred).mean(-1, keepdim=True) + 1e-5) * 2


def _parting(candidate, inputs=X):
    programs = (export_program(Normed(), X), export_program(candidate, inputs))
    return parting(programs[0], X, programs[1], inputs, "eager")


def test_a_harmless_rewriting_comes_together_again():
    culprit, output = _parting(WrittenOut())
    assert culprit is None
    assert output.of_peak < 1e-12


def test_a_mask_that_is_too_wide_is_named_though_its_result_stands_in_the_reference_unmasked():
    class Masked(nn.Module):
        def __init__(self, count):
            super().__init__()
            self.count = count

        def forward(self, x):
            here = torch.arange(24) < x.shape[1] + self.count  # all of them where it is 20
            return torch.where(here, torch.sin(x), 0.0) * 2

    programs = [export_program(Masked(count), X) for count in (8, 20)]
    found = parting(programs[0], X, programs[1], X, "eager")[0]
    assert found.tap.name == ":lt"
    assert found.source.startswith("test_paired_programs.py:")
    assert ":where" not in found.candidates


def test_a_shift_is_named_and_how_far_it_is():
    mechanism = _parting(Of(lambda x: F.instance_norm(torch.sin(x)).roll(3, -1) * 2))[0].mechanism
    assert (mechanism.name, mechanism.statement) == ("changed layout or shift", "3 positions later")


def test_nan_of_a_rewriting_stays_nan():
    culprit, output = _parting(Of(lambda x: F.instance_norm(torch.sin(x)) * 2 * torch.where(x > 2, torch.nan, 1.0)))
    assert output.finite < 1
    assert np.isnan(output.of_peak)
    assert culprit is not None


def test_other_outputs_are_bad_input():
    with pytest.raises(InputError, match="give a reference with the same outputs"):
        _parting(Of(lambda x: (x, x)))


class Turned(nn.Module):
    """A norm, and beside it an angle that the runtime turns by 2 pi where it is one of 0."""

    def forward(self, x, y):
        return F.instance_norm(x), 0.01 * torch.atan2(y, torch.cos(y) - 2) + torch.ones_like(y)


def test_what_the_runtime_does_comes_after_where_the_programs_part(tmp_path):
    angle = {"y": torch.zeros(1, 4, 24)}
    pair, longer = (Turned(), X | angle), {"x": F.pad(X["x"], (0, 40))} | angle
    found = diagnose(Turned(), longer, "onnxruntime", pair, folder=tmp_path)
    assert [one.tap.name for one in found.ranked] == [":instance_norm", ":atan2"]
    names = [one.mechanism.name for one in found.ranked]
    assert names == ["padding leaking through statistics", "branch cut of atan2"]
    assert "the errors of :atan2 on onnxruntime do less to the output" in found.why
    assert found.ranked[1].effect is None


def test_what_the_runtime_does_comes_first_where_it_does_more(tmp_path):
    class Off(Turned):
        def forward(self, x, y):
            return F.instance_norm(x) + 1e-3, torch.atan2(y, torch.cos(y) - 2)

    class Right(Turned):
        def forward(self, x, y):
            return F.instance_norm(x), torch.atan2(y, torch.cos(y) - 2)

    given = X | {"y": torch.zeros(1, 4, 24)}
    found = diagnose(Off(), given, "onnxruntime", (Right(), given), folder=tmp_path)
    assert found.first.tap.name == ":atan2"
    assert found.method == "tracing"


class Doubled(nn.Module):
    def __init__(self, exact):
        super().__init__()
        self.exact = exact

    def forward(self, x):
        y = torch.square(x) if self.exact else x * x * 1.001
        return torch.tanh(torch.sin(y)) * 2


def test_the_operator_that_gives_the_one_input_in_which_equal_operators_differ_is_named():
    programs = [export_program(Doubled(exact), X) for exact in (True, False)]
    culprit, output = parting(programs[0], X, programs[1], X, "eager")
    assert (culprit.tap.name, culprit.candidates) == (":mul#2", (":mul#2",))
    assert "allowed are 1e-05 of the peak" in str(output), "its limit is said"
