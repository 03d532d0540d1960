"""What single operators do to the output: their errors in the right program, alone and left out."""

import numpy as np
import pytest
import torch

from kokoro_nb.backends.exported import export_program
from kokoro_nb.faults import Fault, plant
from kokoro_nb.inspection import diagnose
from kokoro_nb.locate.investigation import investigate, reference_trace
from kokoro_nb.locate.output_error import OutputError, OutputLimit, worst_output
from kokoro_nb.locate.propagation import ErrorPropagation, deviations, share_gone
from tests.backends.small import Of

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
    assert share_gone(output(0.0), output(0.0)) == 0


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
