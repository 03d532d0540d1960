"""A rewritten program beside what it was rewritten from: where the two part, and where they come together again."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from kokoro_nb.backends.exported import export_program
from kokoro_nb.inspection import diagnose
from kokoro_nb.locate.paired_programs import parting, with_inputs
from tests.backends.small import Of, taking
from tests.refusals import refused

X = {"x": torch.randn(1, 4, 24, generator=torch.Generator().manual_seed(0)) + 1}


NORMED = Of(lambda x: F.instance_norm(torch.sin(x)) * 2)


def _written_out(x):
    y = torch.sin(x)
    centred = y - y.mean(-1, keepdim=True)
    return centred * torch.rsqrt((centred * centred).mean(-1, keepdim=True) + 1e-5) * 2


def _parting(candidate, inputs=X):
    programs = (export_program(NORMED, X), export_program(candidate, inputs))
    return parting(programs[0], X, programs[1], inputs, "eager")


def test_a_harmless_rewriting_comes_together_again():
    culprit, output = _parting(Of(_written_out))
    assert culprit is None
    assert output.of_peak < 1e-12


def test_a_mask_that_is_too_wide_is_named_though_its_result_stands_in_the_reference_unmasked():
    def masked(count):  # all of them where it is 20
        class Masked(nn.Module):
            def forward(self, x):
                return torch.where(torch.arange(24) < x.shape[1] + count, torch.sin(x), 0.0) * 2

        return Masked()

    programs = [export_program(masked(count), X) for count in (8, 20)]
    found = parting(programs[0], X, programs[1], X, "eager")[0]
    assert found.tap.name == ":lt"
    assert found.source.startswith("test_paired_programs.py:")
    assert ":where" not in found.candidates


def test_nan_of_a_rewriting_stays_nan():
    culprit, output = _parting(Of(lambda x: F.instance_norm(torch.sin(x)) * 2 * torch.where(x > 2, torch.nan, 1.0)))
    assert output.finite < 1
    assert np.isnan(output.of_peak)
    assert culprit is not None


def test_other_outputs_are_bad_input():
    refused("give a reference with the same outputs", _parting, Of(lambda x: (x, x)))


def test_what_the_runtime_does_comes_after_where_the_programs_part(tmp_path):
    angle = {"y": torch.zeros(1, 4, 24)}
    # a norm, and beside it an angle that the runtime turns by 2 pi where it is one of 0
    turned = taking(lambda x, y: (F.instance_norm(x), 0.01 * torch.atan2(y, torch.cos(y) - 2) + torch.ones_like(y)))
    pair, longer = (turned, X | angle), {"x": F.pad(X["x"], (0, 40))} | angle
    found = diagnose(turned, longer, "onnxruntime", pair, folder=tmp_path)
    assert [one.tap.name for one in found.ranked] == [":instance_norm", ":atan2"]
    names = [one.mechanism.name for one in found.ranked]
    assert names == ["padding leaking through statistics", "branch cut of atan2"]
    assert "the errors of :atan2 on onnxruntime do less to the output" in found.why
    assert found.ranked[1].effect is None


def test_what_the_runtime_does_comes_first_where_it_does_more(tmp_path):
    off = taking(lambda x, y: (F.instance_norm(x) + 1e-3, torch.atan2(y, torch.cos(y) - 2)))
    right = taking(lambda x, y: (F.instance_norm(x), torch.atan2(y, torch.cos(y) - 2)))
    given = X | {"y": torch.zeros(1, 4, 24)}
    found = diagnose(off, given, "onnxruntime", (right, given), folder=tmp_path)
    assert found.first.tap.name == ":atan2"
    assert found.method == "tracing"


def _doubled(exact):
    return taking(lambda x: torch.tanh(torch.sin(torch.square(x) if exact else x * x * 1.001)) * 2)


def test_the_operator_that_gives_the_one_input_in_which_equal_operators_differ_is_named():
    programs = [export_program(_doubled(exact), X) for exact in (True, False)]
    culprit, output = parting(programs[0], X, programs[1], X, "eager")
    assert (culprit.tap.name, culprit.candidates) == (":mul#2", (":mul#2",))
    assert "allowed are 1e-05 of the peak" in str(output), "its limit is said"


def _halves_exchanged(x):
    gate, values = x.tan().chunk(2, 1)
    return values * gate.sigmoid()


@pytest.mark.parametrize(
    ("right", "other", "name", "statement"),
    [
        (lambda x: x.cumsum(1), lambda x: x.cumsum(2), ":cumsum", "cumsum computed as one whose dim is 2, not 1"),
        (lambda x: F.glu(x.tan(), 1), _halves_exchanged, ":mul", "glu computed as GLU with its halves exchanged"),
        (lambda x: x.amax((1, 2)), lambda x: x.mean((1, 2)), ":mean", "another call"),
        (lambda x: (x.cumsum(2) % 1 * 6).sin(), lambda x: (x * torch.arange(24) % 1 * 6).sin(), ":mul", "another call"),
        (lambda x: (x.square() + 1).sqrt(), lambda x: x.square().sqrt() + 1, ":sqrt", "another value is read"),
        (lambda x: x.view(4, 3, 8).mT * 2, lambda x: x.view(3, 4, 8).permute(1, 2, 0) * 2, ":view", "another call"),
    ],
    ids=["argument", "operator", "one number", "namesake", "order", "sizes"],
)
def test_what_was_rewritten_is_told_by_the_operator_of_the_reference(right, other, name, statement):
    programs = [export_program(taking(function), X) for function in (right, other)]
    culprit, _ = parting(programs[0], X, programs[1], X, "eager")
    assert (culprit.tap.name, culprit.mechanism.statement) == (name, statement)


def test_a_reference_on_the_same_inputs_follows_to_others_and_one_on_its_own_stays():
    module, longer = taking(lambda x: F.instance_norm(x)), {"x": F.pad(X["x"], (0, 40))}
    program = export_program(module, X, {"x": {2: torch.export.Dim("frames", min=2, max=99)}})
    assert diagnose(program, X, "onnxruntime", (module, X), at=longer).verdict == "pass"
    own = module, {"x": X["x"][..., :20]}
    for given, kept in ((own, own), (module, module), ((module, X), (module, longer))):
        assert with_inputs(given, X, longer) == kept
