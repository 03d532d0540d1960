"""What rounding explains of a whole output is allowed, and no more: each control is an output that is wrong."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from kokoro_nb.backends.exported import export_program
from kokoro_nb.locate.investigation import reference_trace
from kokoro_nb.locate.local_error import explained_errors
from kokoro_nb.locate.output_limit import output_error


class RunningPhase(nn.Module):
    """A sine whose phase is a running sum, as a harmonic source has it."""

    def forward(self, f0):
        """Return the sine."""
        return torch.sin(2 * torch.pi * torch.cumsum(f0 / 24000, -1))


@pytest.fixture(scope="module")
def reference():
    inputs = {"f0": 210 + 30 * torch.rand(1, 12000, generator=torch.Generator().manual_seed(0))}
    return reference_trace(export_program(RunningPhase(), inputs), {"f0": inputs["f0"].numpy()})


def found(reference, output, **options):
    """Return verdict and limit for this output in float32, the operators' bounds known."""
    error, limits = output_error(reference, {"output": output}, ["float32"], explained_errors(reference), **options)
    return error.verdict, limits["output"].value


def test_another_order_of_summation_is_allowed_and_a_wrong_gain_frequency_or_start_is_not(reference):
    step = reference.inputs["f0"] / np.float32(24000)
    phase = np.cumsum(step.astype(np.float64), -1)
    roughly = np.cumsum(step, -1, dtype=np.float32)  # one after the other, which torch does not do
    verdict, limit = found(reference, np.sin(2 * np.pi * roughly).astype(np.float32))
    assert verdict == "pass"
    assert limit < 2**-4
    for wrong in (1.1 * np.sin(2 * np.pi * phase), np.sin(2 * np.pi * 1.001 * phase), np.cos(2 * np.pi * phase)):
        assert found(reference, wrong.astype(np.float32))[0] == "fail"


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_is_never_allowed(reference, value):
    output = reference.outputs["output"].copy()
    output[0, 100] = value
    assert found(reference, output)[0] == "fail"


def test_a_requested_limit_stands_in_place_of_what_is_derived(reference):
    output = reference.outputs["output"] + np.float32(1e-3)
    assert found(reference, output, limit=1e-4) == ("fail", 1e-4)
    assert found(reference, output, limit=1e-2) == ("pass", 1e-2)


def test_bounds_of_operators_raise_the_limit_of_an_output_that_is_wrong_and_never_lower_it(reference):
    errors, wrong = explained_errors(reference), 1.1 * reference.outputs["output"]

    def limit(output, errors):
        return output_error(reference, {"output": output}, ["float32"], errors)[1]["output"].value

    floor = limit(wrong, ())
    assert limit(wrong, errors) > floor
    assert limit(wrong, [replace(one, bound=1e-12) for one in errors]) == floor
    assert limit(reference.outputs["output"], errors) == floor, "one that is right needs no more"


def test_an_output_is_moved_by_as_much_as_its_own_bound_to_either_side(reference):
    sine = explained_errors(reference)[-1]
    wrong = 1.1 * reference.outputs["output"]
    limit = output_error(reference, {"output": wrong}, ["float32"], [replace(sine, bound=0.01)])[1]["output"].value
    assert 0.0099 < limit * np.abs(reference.outputs["output"]).max() < 0.01 * (1 - 1e-6)
