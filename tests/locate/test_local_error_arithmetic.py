"""What is allowed of an operator's error, by arithmetic: on arrays, and with bounds that are made by hand."""

from dataclasses import FrozenInstanceError, replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from kokoro_nb.locate.local_error import THROUGH, Judge, _step_shares

EPS = float(np.finfo(np.float32).eps)


@pytest.mark.parametrize(
    ("error", "bound", "peak", "shares"),
    [
        (0, 0, 0, (0, 0)),
        (0.5, 2, 4, (0.125, 0.5)),
        (0, 3, 0, (0, np.inf)),
        (1, 0, 0, (np.inf, 0)),
        (1, 0.5, 0, (np.inf, np.inf)),
    ],
)
def test_shares_of_the_peak(toy, error, bound, peak, shares):
    some = Judge(toy(), toy().trace()).error(":sin")
    found = replace(some, error=float(error), bound=float(bound), peak=float(peak))
    assert (found.of_peak, found.bound_of_peak) == shares
    assert np.isnan(replace(found, bound=float("nan")).bound_of_peak)
    assert found.of_peak_or_nan == found.of_peak
    for given in (np.nan, np.inf):
        assert np.isnan(replace(found, given=np.full_like(some.given, given)).of_peak_or_nan)
    with pytest.raises(FrozenInstanceError):
        found.ratio = 0.0
    assert len({found, replace(found)}) == 2, "one holds tensors, and is equal to itself alone"
    ratios = (0.0, 1.0, np.nextafter(1.0, 2.0), 2.0, np.inf)
    assert [replace(found, ratio=ratio).unexplained for ratio in ratios] == [False, False, True, True, True]


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2, -3])
def test_a_step_is_judged_along_its_axis_and_the_first_by_itself(axis):
    error = np.array([[1.0, 3.0, 3.5, -0.5, -4.0], [-2.0, 2.0, 0.0, 1.0, -7.0]])
    expected = np.array([[0.5, 1.0, 0.25, 0.0, 1.75], [1.0, 0.0, 0.0, 0.5, 4.0]])
    moved, right = (np.moveaxis(one.reshape(2, 1, 5), -1, axis) for one in (error, expected))
    np.testing.assert_array_equal(_step_shares(moved, np.full(moved.shape, 2.0), axis), right)


def _bounded(program, **bound):
    """Return what the program computes, with this bound of its rounding."""

    def recompute(name, inputs, captured, double=True, substitute=None):
        if substitute is not None:
            vars(substitute).update(bound)
        return program.recompute(name, inputs, captured, double)

    return SimpleNamespace(operators=program.operators, recompute=recompute)


def _peaks(values):
    return np.abs(values).max(axis=(0, 2), keepdims=True)


@pytest.mark.parametrize(("fault", "wrong"), [(0.2, False), (0.3, True)])
def test_what_is_allowed_are_units_and_the_bound_of_the_family(toy, step, at, fault, wrong):
    program = toy({":mul": step("mul.Tensor", lambda x: x * 4, "input:x")})  # which rounds nothing
    exact = 4.0 * program.inputs["x"]
    own = torch.full((1, 4, 16), 0.25, dtype=torch.float64)
    own[0, 0, 0] = torch.inf  # nothing is allowed where the bound is not finite
    trace = program.trace({":mul": at((0, 1, 2), exact[0, 1, 2] + fault)})
    judge = Judge(_bounded(program, own=own), trace)
    error, units = judge.error(":mul"), 4 * EPS * _peaks(exact)
    assert error.ratio == pytest.approx(fault / (units[0, 1, 0] + 0.25), rel=1e-5)
    assert np.argwhere(error.wrong).tolist() == [[0, 1, 2]] * wrong
    assert error.error == pytest.approx(fault, rel=1e-5)
    assert error.bound == judge.error(":mul", fully=True).bound == pytest.approx(units.max() + 0.25, rel=1e-9)
    infinite = program.trace({":mul": at((0, 0, 0), exact[0, 0, 0] + 0.1)})
    found = Judge(_bounded(program, own=own), infinite).error(":mul")
    assert found.ratio == pytest.approx(0.1 / units[0, 0, 0], rel=1e-4)


def test_an_error_of_just_what_is_allowed_is_explained_and_the_next_number_is_not(toy, step, at):
    x = np.full((1, 2, 16), 0.125, np.float32)
    x[0, :, 0] = 0.25
    program = toy({":mul": step("mul.Tensor", lambda x: x * 4, "input:x")}, {"x": x})
    nothing = torch.zeros(1, 2, 16, dtype=torch.float64)
    just = np.float32(0.5 + 4 * EPS)  # units of the peak, which is 1
    for given, wrong in ((just, False), (np.nextafter(just, np.float32(1)), True)):
        trace = program.trace({":mul": at((0, 1, 2), given)})
        error = Judge(_bounded(program, own=nothing), trace).error(":mul")
        assert error.unexplained == error.wrong.any() == (error.ratio > 1) == wrong
        assert error.ratio == (float(given) - 0.5) / (4 * EPS)


def test_of_an_operator_without_a_family_sixteen_times_what_rounding_was_seen_to_do(toy, step):
    program = toy({":add": step("add.Tensor", lambda x: np.sin((x + 1000) - 1000), "input:x")})
    x = program.inputs["x"].astype(np.float64)
    exact = np.sin((x + 1000) - 1000)
    lot = np.random.default_rng(0).uniform(-1, 1, x.shape)
    seen = [np.sin((program.inputs["x"] + 1000) - 1000), np.sin((x * (1 + EPS / 2 * lot) + 1000) - 1000)]
    measured = np.maximum(*(_peaks(one - exact) for one in seen))
    expected = 4 * EPS * _peaks(exact) + 16 * measured
    assert Judge(program, program.trace()).error(":add", fully=True).bound == pytest.approx(expected.max(), rel=1e-9)
    last = exact.copy()
    last[0, 2, 3] += 0.5
    found = Judge(_bounded(program, last=torch.from_numpy(last)), program.trace()).error(":add", fully=True).bound
    assert found == pytest.approx((4 * EPS * _peaks(exact))[0, 2, 0] + THROUGH * 0.5, rel=1e-9)


def test_a_bound_of_complex_numbers_is_for_both_their_parts(toy, step):
    program = toy({":complex": step("complex.default", lambda x: (x + 2j * x).astype(np.complex64), "input:x")})
    bounded = _bounded(program, own=torch.full((1, 4, 16), 0.25, dtype=torch.float64))
    found = Judge(bounded, program.trace()).error(":complex", fully=True).bound
    assert found == pytest.approx(4 * EPS * 2 * np.abs(program.inputs["x"]).max() + 0.25, rel=1e-6)
