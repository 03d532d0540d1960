"""What rounding explains of a whole output is allowed, and no more: each control is an output that is wrong."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from kokoro_nb.backends.exported import export_program
from kokoro_nb.locate.investigation import reference_trace
from kokoro_nb.locate.local_error import explained_errors
from kokoro_nb.locate.output_error import CAPPED, OutputLimit, _from_floor, output_error, worst_output
from tests.backends.small import taking

# a sine whose phase is a running sum, as a harmonic source has it
PHASE = taking(lambda f0: torch.sin(2 * torch.pi * torch.cumsum(f0 / 24000, -1)))


@pytest.fixture(scope="module")
def reference():
    inputs = {"f0": 210 + 30 * torch.rand(1, 12000, generator=torch.Generator().manual_seed(0))}
    return reference_trace(export_program(PHASE, inputs), {"f0": inputs["f0"].numpy()})


def found(reference, output, **options):
    """Return verdict and limit for this output in float32, the operators' bounds known."""
    error, limits = output_error(reference, {"output": output}, ["float32"], explained_errors(reference), **options)
    return error.verdict, limits["output"].value


def test_an_error_where_only_0_is_right_is_no_share_of_its_peak():
    error = worst_output({"y": np.zeros(4)}, {"y": np.array([0, 0.25, 0, -0.5])})
    assert str(error) == "'y' is off by more than 0, where only 0 is right"


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
    error = output_error(reference, {"output": output}, ["float32"])[0].as_dict()
    assert (error["verdict"], error["finite (%)"]) == ("fail", pytest.approx(100 - 100 / 12000))


def test_a_requested_limit_stands_in_place_of_what_is_derived(reference):
    output = reference.outputs["output"] + np.float32(1e-3)
    assert found(reference, output, limit=1e-4) == ("fail", 1e-4)
    assert found(reference, output, limit=1e-2) == ("pass", 1e-2)


def test_an_output_is_moved_by_as_much_as_its_own_bound_to_either_side(reference):
    sine = explained_errors(reference)[-1]
    wrong = 1.1 * reference.outputs["output"]
    limit = output_error(reference, {"output": wrong}, ["float32"], [replace(sine, bound=0.01)])[1]["output"].value
    assert 0.0099 < limit * np.abs(reference.outputs["output"]).max() < 0.01 * (1 - 1e-6)


HALF, SINGLE, DOUBLE = (float(np.finfo(dtype).eps) for dtype in (np.float16, np.float32, np.float64))
OWN = "8 times PyTorch's own distance from float64, "
ONE = "8 times one rounding of the result"


@pytest.mark.parametrize(
    ("floor", "own", "runtime", "limit", "basis"),
    [
        (SINGLE / 2, SINGLE, SINGLE, 4 * SINGLE, f"{OWN}6e-08"),
        (0.0, SINGLE, SINGLE, 4 * SINGLE, ONE),
        (2.0**-16, HALF, SINGLE, 2.0**-13, f"{OWN}1.5e-05"),  # one that is finer is not held to less
        (2.0**-21, SINGLE, HALF, 2.0**-5, f"{OWN}4.8e-07 times 8.19e+03, as the runtime's dtype is coarser"),
        (2.0**-25, SINGLE, HALF, 2.0**-8, ONE),
        (2.0**-6, SINGLE, SINGLE, 2.0**-4, CAPPED),
        (np.nan, SINGLE, SINGLE, 2.0**-4, CAPPED),
    ],
)
def test_eight_times_the_floor_times_as_much_as_the_dtype_is_coarser_or_one_rounding(floor, own, runtime, limit, basis):
    single = np.array([1.0, 4 + 4 * floor])
    assert _from_floor(np.array([1.0, 4.0]), single, own, runtime) == OutputLimit(limit, basis)


@pytest.mark.parametrize(("dtype", "raised"), [("float64", True), ("float32", True), ("float16", False)])
def test_only_of_float32_and_finer_roundings_on_the_way_raise_a_limit(reference, dtype, raised):
    sine = [replace(explained_errors(reference)[-1], bound=0.05)]
    wrong = {"output": 1.3 * reference.outputs["output"]}
    plain, derived = (output_error(reference, wrong, [dtype], errors)[1]["output"].value for errors in ((), sine))
    assert (derived > plain) == raised
    assert derived >= plain
    tiny = [replace(sine[0], bound=1e-12)]
    assert output_error(reference, wrong, [dtype], tiny)[1]["output"].value == plain, "none is lowered"
    wrong["output"][0, 5] = np.nan
    assert output_error(reference, wrong, [dtype], sine)[1]["output"].value == plain, "what is not finite needs none"


def test_the_floor_is_that_of_float32_whichever_of_the_two_the_reference_is(reference):
    exact = reference.meaning.run(reference.inputs, double=True)
    outputs = {"output": reference.outputs["output"]}
    _, limits = output_error(reference, outputs, ["float32"])
    double = replace(reference, backend="eager-float64", outputs={"output": exact["output"]})
    assert output_error(double, outputs, ["float32"])[1] == limits
    moved = replace(reference, outputs={"output": exact["output"] + 2.0**-12 * np.abs(exact["output"]).max()})
    assert output_error(moved, outputs, ["float32"])[1]["output"].value == pytest.approx(2.0**-9, rel=1e-6)
