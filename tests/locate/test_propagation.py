"""What the errors of operators do to the output: wrong ones, and where each is right, those that lose too much."""

import numpy as np
import pytest
import torch

from kokoro_nb.backends.exported import export_program
from kokoro_nb.faults import Fault, plant
from kokoro_nb.inspection import diagnose
from kokoro_nb.locate.investigation import investigate, reference_trace
from kokoro_nb.locate.output_error import OutputError, OutputLimit, worst_output
from kokoro_nb.locate.propagation import BUDGET, ErrorPropagation, deviations, lossy_operators, share_gone
from tests.backends.small import Of, here, taking
from tests.refusals import refused

X = {"x": torch.linspace(0.5, 2, 24).reshape(1, 4, 6)}


@pytest.fixture(scope="module")
def healthy():
    return export_program(Of(lambda x: (x.sin() * 2).exp() + x.cos()), X)


def test_the_errors_of_all_operators_together_are_what_the_runtime_gave(healthy):
    planted = plant(plant(healthy, Fault("scaled", ":sin")), Fault("sign_flip", ":cos"))
    reference = reference_trace(healthy, X)
    found = investigate(planted, X, "eager", reference)
    whole = ErrorPropagation(reference, deviations(reference, found.candidate))
    together = whole.outputs(whole.names)["output"]
    np.testing.assert_allclose(together, found.candidate.outputs["output"], rtol=0, atol=1e-12)
    np.testing.assert_array_equal(whole.outputs(())["output"], whole.right["output"])


def test_the_largest_effect_comes_first_although_it_is_executed_last(healthy):
    planted = plant(plant(healthy, Fault("scaled", ":sin")), Fault("sign_flip", ":exp"))
    found = diagnose(planted, X, "eager", reference=healthy)
    assert [one.tap.name for one in found.culprits] == [":sin", ":exp"]
    assert [one.tap.name for one in found.ranked] == [":exp", ":sin"]
    assert found.ranked[0].effect > 0.9
    assert [row["executed"] for row in found.table()] == [2, 1]


def test_a_nan_is_no_number(healthy):
    found = diagnose(plant(healthy, Fault("nan_channel", ":exp")), X, "eager", reference=healthy)
    (culprit,) = found.culprits
    assert np.isnan(culprit.local_error)
    assert np.isnan(culprit.alone)
    assert culprit.effect == 1
    assert culprit.channels == "1 of 4 channels wholly"
    assert np.isnan(found.output.of_peak)
    assert found.output.finite == 0.75
    assert "local error not finite" in str(found)


def test_shares():
    def output(error, finite=1.0):
        return OutputError("y", error, finite)

    assert share_gone(output(0.4), output(0.1)) == pytest.approx(0.75)
    assert share_gone(output(0.1), output(0.2)) == pytest.approx(-1)  # to mend one of two that cancel adds to it
    assert share_gone(output(np.nan, 0.5), output(np.nan, 0.75)) == 0.5
    assert np.isnan(share_gone(output(0.1), output(np.nan, 0.9)))
    assert share_gone(output(0.0), output(0.0)) == share_gone(output(np.inf), output(np.inf)) == 0


def test_the_output_furthest_beyond_its_limit_is_the_worst():
    right = {"a": np.ones(4), "b": np.ones(4), "c": np.full(4, np.nan)}
    given = {"a": right["a"] + 0.2, "b": right["b"] + 0.1, "c": right["c"]}
    limits = {"a": OutputLimit(1.0, "wide"), "b": OutputLimit(0.01, "narrow"), "c": OutputLimit(0.0, "none")}
    assert worst_output(right, given, limits).output == "b"
    assert worst_output(right, given, limits).verdict == "fail"
    assert worst_output(right, given).output == "a"
    assert worst_output(right, given).verdict == "unknown"
    lost = worst_output(right, {**given, "a": np.array([1, np.inf, 1, 1.0])}, limits)
    assert (lost.output, lost.finite, lost.verdict) == ("a", 0.75, "fail")
    assert np.isnan(lost.of_peak)


F0 = (200 + 3 * torch.sin(torch.arange(3000) / 500.0)).reshape(1, -1, 1)


def harmonics(f0):
    """Return nine harmonics from a running phase, at 24 kHz."""
    turns = torch.cumsum(f0 * torch.arange(1, 10, dtype=f0.dtype) / 24000, dim=1)
    return torch.sin(turns * 6.283185307179586).sum(-1)


NORM = Of(lambda x: torch.nn.functional.instance_norm(x).sin())


@pytest.fixture(scope="module")
def half():
    return diagnose(taking(harmonics), {"f0": F0.half()}, here("onnxruntime"), remedies=True)


def test_a_running_phase_in_float16_is_no_pass(half):
    assert half.verdict == "fail"
    assert half.output.verdict == "fail"
    assert half.output.of_peak > 0.2
    assert half.output.limit == 2**-4
    assert {":cumsum", ":mul#2"} & {one.tap.name for one in half.culprits}
    assert half.ranked[0].mechanism.name == "accumulated phase"
    assert "numbers of float16 are" in half.ranked[0].mechanism.evidence[0]
    lossy = [one for one in half.culprits if one.channels == "right for float16, which is too little for the output"]
    assert half.ranked[0] in lossy
    assert all(one.ratio <= 1 for one in lossy)


def test_the_operators_to_keep_in_float32_are_measured(half):
    cure = half.remedies[-1]
    assert (cure.kind, cure.verdict) == ("float32 operators", "pass")
    assert ":cumsum" in cure.name
    assert ":sin" in cure.name  # it reads the phase, which is to reach it in float32
    assert cure.error_after < half.output.limit < cure.error_before
    assert cure.outputs["output"].dtype == np.float16


def test_a_norm_that_float16_cannot_bear_is_named_on_core_ml():
    x = {"x": 10 + 0.02 * torch.randn(1, 8, 240, generator=torch.Generator().manual_seed(0))}
    found = diagnose(NORM, x, here("coreml-reference"), remedies=True)
    assert found.verdict == "fail"
    assert found.output.of_peak > found.output.limit
    assert found.remedies[-1].verdict == "pass"
    assert ":instance_norm" in found.remedies[-1].name  # by the name that it has in PyTorch


def test_a_limit_of_ones_own():
    x = {"x": torch.randn(1, 8, 240, generator=torch.Generator().manual_seed(0))}
    found = diagnose(NORM, x, "onnxruntime", limit=0.5)
    assert (found.verdict, found.output.limit, found.output.basis) == ("pass", 0.5, "as requested")
    assert diagnose(NORM, x, "onnxruntime", limit=0.0).verdict != "pass"  # an output beyond its limit never is
    refused("The limit of the output's error is -1", diagnose, NORM, x, "onnxruntime", limit=-1)


class _Sums:
    """Errors that add up: each operator's own, with a limit."""

    def __init__(self, errors, limit):
        self.errors, self.limit, self.names, self.runs = errors, limit, tuple(errors), 0

    def error(self, names):
        self.runs += 1
        return OutputError("y", sum(self.errors[name] for name in names), 1.0, self.limit, "given")

    def error_without(self, names):
        return self.error([name for name in self.names if name not in names])


@pytest.mark.parametrize(
    ("errors", "found"),
    [
        ({"a": 0.001, "b": 0.5, "c": 0.002, "d": 0.4}, ("b", "d")),
        ({"a": 0.001, "b": 0.002}, ()),  # within its limit
        ({"a": 0.06, "b": 0.06, "c": 0.001}, ("b",)),  # either would do; one is enough
        ({str(place): 0.02 for place in range(8)}, ("0", "1", "2")),  # many small ones: no single one is to blame
    ],
)
def test_the_smallest_set_that_brings_the_output_within_its_limit(errors, found):
    sums = _Sums(errors, 0.101)
    chosen = lossy_operators(sums)
    assert len(chosen) == len(found)
    assert sums.error_without(chosen).verdict == "pass"
    if found == ("b", "d"):
        assert chosen == found


def test_a_search_that_takes_too_long_names_more_than_it_had_to():
    sums = _Sums({str(place): 0.02 for place in range(400)}, 0.101)
    chosen = lossy_operators(sums)
    assert sums.error_without(chosen).verdict == "pass"
    assert sums.runs < 2 * BUDGET
