from dataclasses import FrozenInstanceError, replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from kokoro_nb.locate.local_error import THROUGH, Judge, _step_shares
from kokoro_nb.traces.trace import Recorder
from tests.refusals import refused

EPS = float(np.finfo(np.float32).eps)


def _errors(program, trace):
    judge = Judge(program, trace)
    return {tap.name: judge.error(tap.name) for tap in trace.taps}


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_rounding_passes_in_every_precision(toy, dtype):
    program = toy()
    errors = _errors(program, program.trace(dtype=dtype))
    assert max(error.ratio for error in errors.values()) <= 1
    assert not any(error.wrong.any() for error in errors.values())
    largest = max(error.of_peak for error in errors.values())
    # half a unit in the last place of the peak, and some: each operator rounds once or twice
    assert (largest == 0) if dtype is np.float64 else (0 < largest <= 2 * float(np.finfo(dtype).eps))
    assert Judge(program, program.trace({":view": np.ravel})).error(":view").ratio == 0  # as the memory that it is of


@pytest.mark.parametrize("name", [":mul", ":sin", ":tanh", ":add"])
@pytest.mark.parametrize(("units", "wrong"), [(2, False), (40, True)])
def test_a_few_units_in_the_last_place_pass_and_ten_times_as_many_do_not(toy, at, name, units, wrong):
    program = toy()
    peak = np.abs(program.trace().values[name]).max()
    trace = program.trace({name: lambda x: at((0, 2, 5), x[0, 2, 5] + np.float32(units * EPS * peak))(x)})
    errors = _errors(program, trace)
    assert (errors[name].ratio > 1) == wrong
    assert errors[name].wrong.any() == wrong
    assert np.argwhere(errors[name].wrong).tolist() == [[0, 2, 5]] * wrong
    assert errors[name].of_peak == pytest.approx(units * EPS, rel=1)
    assert all(error.ratio <= 1 for other, error in errors.items() if other != name)  # what it does to others is theirs


def test_what_overflows_in_pytorch_too_and_what_stayed_wide_are_right(toy, step):
    x = {"x": np.full((1, 2, 8), 300.0, np.float32)}
    halved = step("div.Tensor", lambda x: x / 900, ":exp")
    program = toy({":exp": step("exp.default", np.square, "input:x"), ":div": halved}, x)
    errors = _errors(program, program.trace({":div": lambda y: np.full_like(y, 100)}, dtype=np.float16))
    assert [one.ratio > 1 for one in errors.values()] == [False, False]  # 90,000 was captured as infinite
    length = step("linalg_vector_norm.default", lambda x: np.sqrt(np.square(x * x.dtype.type(1e18))), "input:x")
    program = toy({":norm": length}, x)
    assert _errors(program, program.trace())[":norm"].ratio == 0
    assert _errors(program, program.trace({":norm": lambda y: y * np.float32(np.nan)}))[":norm"].ratio > 1


def test_a_quiet_channel_is_judged_by_itself(toy, step, at):
    loud = np.float32([1, 1, 1e-2, 1]).reshape(1, 4, 1)
    program = toy({":mul": step("mul.Tensor", lambda x: x * loud, "input:x")})
    trace = program.trace({":mul": lambda x: at((0, 2), x[0, 2] * np.float32(1 + 1e-5))(x)})
    error = _errors(program, trace)[":mul"]
    assert error.of_peak < 4 * EPS  # of the loudest channel it is nothing
    assert error.ratio > 1
    assert np.flatnonzero(error.wrong.any(axis=(0, 2))).tolist() == [2]


@pytest.mark.parametrize(
    ("right", "given", "wrong"),
    [
        (1.0, np.nan, True),
        (1.0, np.inf, True),
        (np.nan, 0.0, True),
        (np.inf, 3e38, True),
        (np.inf, -np.inf, True),
        (np.inf, np.nan, True),
        (np.nan, np.nan, False),
        (-np.inf, -np.inf, False),
    ],
)
def test_what_is_not_finite_is_judged_by_its_kind(toy, step, at, right, given, wrong):
    x = np.ones((1, 2, 16), np.float32)
    x[0, 1, 3] = right
    program = toy({":clone": step("clone.default", np.copy, "input:x")}, {"x": x})
    error = _errors(program, program.trace({":clone": at((0, 1, 3), given)}))[":clone"]
    assert error.ratio == (np.inf if wrong else 0)
    assert np.argwhere(error.wrong).tolist() == [[0, 1, 3]] * wrong
    assert (error.error, error.peak) == (0, 1)  # numbers are compared where both are finite


def test_what_leaves_the_range_of_the_dtype_is_infinite(toy, step):
    program = toy({":mul": step("mul.Tensor", lambda x: x * 400, "input:x")}, {"x": np.full((1, 2, 8), 200.0)})
    assert _errors(program, program.trace(dtype=np.float16))[":mul"].ratio == 0
    held = program.trace({":mul": lambda x: np.full_like(x, 65504)}, dtype=np.float16)
    assert _errors(program, held)[":mul"].ratio == np.inf
    assert _errors(program, program.trace())[":mul"].ratio == 0  # 80000 is a number in float32


def test_integers_and_truth_values_are_exact(toy, step, at):
    largest = step("argmax.default", lambda x: np.argmax(x, axis=-1), "input:x")
    program = toy({":argmax": largest, ":gt": step("gt.Scalar", lambda x: x > 0, "input:x")})
    right = _errors(program, program.trace())
    assert {(error.ratio, error.bound, error.bound_of_peak) for error in right.values()} == {(0, 0, 0)}
    assert [error.right.dtype for error in right.values()] == [np.int64, bool]
    assert Judge(program, program.trace()).error(":gt", fully=True).bound == 0
    trace = program.trace({":argmax": at((0, 1), 15 - program.trace().values[":argmax"][0, 1]), ":gt": np.logical_not})
    errors = _errors(program, trace)
    assert (errors[":argmax"].ratio, errors[":argmax"].error) == (np.inf, 5)
    assert (errors[":gt"].ratio, errors[":gt"].error) == (np.inf, 1)
    narrow = program.trace({":argmax": lambda x: x.astype(np.int32)})
    assert _errors(program, narrow)[":argmax"].ratio == 0


def test_a_comparison_with_a_number_that_float32_does_not_have(toy, step):
    x = np.full((1, 2, 8), 0.1, np.float32)  # 0.100000001: above 0.1, and not above what float32 makes of 0.1
    program = toy({":gt": step("gt.Scalar", lambda x: x > x.dtype.type(0.1), "input:x")}, {"x": x})
    trace = program.trace()
    assert program.recompute(":gt", program.inputs, {}).numpy().all()
    assert not trace.values[":gt"].any()
    assert _errors(program, trace)[":gt"].ratio == 0
    assert _errors(program, program.trace({":gt": np.logical_not}))[":gt"].ratio == 0, "what float64 says is right, too"


def test_of_two_that_are_equal_in_float16_the_first_is_the_largest_where_the_run_is_in_float16(toy, step):
    place = step("argmax.default", lambda x: np.argmax(x, axis=-1), "input:x")
    steps = {":argmax": place, ":neg": step("neg.default", np.negative, "input:x")}
    program = toy(steps, {"x": np.array([[1, 0.5, 1 + 2**-13]], np.float32)})
    for taken, dtype, ratio in ((0, np.float16, 0), (1, np.float16, np.inf), (0, np.float32, np.inf)):
        trace = program.trace({":argmax": partial(np.full_like, fill_value=taken)}, dtype=dtype)
        assert _errors(program, trace)[":argmax"].ratio == ratio


def test_the_parts_of_complex_numbers_are_judged(toy, step, at):
    made = step("complex.default", lambda x: (x + 1j * x).astype(np.complex64), "input:x")
    program = toy({":complex": made, ":mul": step("mul.Tensor", lambda z: z * z.dtype.type(1.1 + 0.3j), ":complex")})
    assert max(error.ratio for error in _errors(program, program.trace()).values()) <= 1
    trace = program.trace({":mul": lambda z: at((0, 2, 3), z[0, 2, 3] + 1e-3j)(z)})
    error = _errors(program, trace)[":mul"]
    assert error.ratio > 1
    assert np.argwhere(error.wrong).tolist() == [[0, 2, 3, 1]]


def test_what_was_not_captured_is_computed_along(toy):
    program = toy()
    judge = Judge(program, program.trace(missing=(":view", ":sin", ":mul")))
    assert judge.along(":add") == (":sin", ":view", ":mul")
    assert judge.along(":clamp") == ()
    assert judge.upstream(":add") == (":tanh", "input:x")
    assert judge.error(":add").along == (":sin", ":view", ":mul")
    assert judge.error(":add").ratio <= 1
    np.testing.assert_array_equal(judge.candidate.value("input:x"), program.inputs["x"])
    wrong = Judge(program, program.trace({":sin": lambda x: -x}, missing=(":view", ":sin")))
    assert wrong.error(":add").ratio > 1


def test_constants_that_went_into_it(toy, step):
    product = step("mul.Tensor", lambda x, w, b: x * w + b, "input:x", ":neg", "constant:b")
    steps = {":neg": step("neg.default", lambda w: -w, "constant:w"), ":mul": product}
    program = toy(steps, constants={"w": np.float32(2.5), "b": np.float32(1)})
    judge = Judge(program, program.trace(missing=(":neg",)))
    assert judge.upstream(":mul") == ("input:x", "constant:b", "constant:w")
    assert judge.error(":mul").ratio <= 1


def test_rounding_that_an_operator_multiplies_is_allowed_for(toy, step):
    # 1000 less 999.9 keeps four digits: the rounding of the sum before, which was not captured, is 1e-3 of the result
    added = step("add.Tensor", lambda x: x + 1000, "input:x")
    program = toy({":add": added, ":sub": step("sub.Tensor", lambda x: x - 1000, ":add")})
    error = _errors(program, program.trace(missing=(":add",)))[":sub"]
    assert error.of_peak > 100 * 4 * EPS / 10
    assert error.ratio <= 1
    wrong = program.trace({":sub": lambda x: x + np.float32(3e-3)}, missing=(":add",))
    assert _errors(program, wrong)[":sub"].ratio > 1


def test_empty_tensors_have_no_error(toy, step):
    program = toy({":clone": step("clone.default", np.copy, "input:x")}, {"x": np.zeros((1, 0, 4), np.float32)})
    error = _errors(program, program.trace())[":clone"]
    assert (error.ratio, error.error, error.peak, error.of_peak) == (0, 0, 0, 0)
    assert (error.bound, error.bound_of_peak, error.given.size) == (0, 0, 0)
    assert Judge(program, program.trace()).error(":clone", fully=True).bound == 0


def test_a_trace_of_another_program_is_refused(toy, step):
    other = toy({":cos": step("cos.default", np.cos, "input:x")})
    refused("no operator ':cos'; the traces are of different programs", Judge, toy(), other.trace())


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_the_bound_is_that_of_the_dtype_that_was_given(toy, dtype):
    program = toy()
    error = _errors(program, program.trace(dtype=dtype))[":sin"]
    assert error.dtype == error.without_tensors().dtype == np.dtype(dtype).name
    assert error.error <= error.bound
    assert error.bound_of_peak == pytest.approx(4 * float(np.finfo(dtype).eps))  # 4 units of the channels' peaks, 1
    wrong = _errors(program, program.trace({":sin": lambda x: x * dtype(1.1)}, dtype=dtype))[":sin"]
    assert wrong.error > wrong.bound
    assert wrong.bound < 0.05 * wrong.peak


@pytest.mark.parametrize(("units", "wrong"), [(0, False), (0.25, False), (8, True)])
def test_what_was_captured_in_fewer_bits_may_have_been_handed_on_in_more(toy, step, units, wrong):
    steps = {":mul": step("mul.Tensor", lambda x: x * 3, "input:x"), ":sin": step("sin.default", np.sin, ":mul")}
    program = toy(steps)
    product = program.inputs["x"] * np.float32(3)
    half = float(np.finfo(np.float16).eps)
    result = np.sin(product) + np.float32(units * half * np.abs(product).max())
    recorder = Recorder(list(program.operators), "full")
    recorder.add(":mul", product.astype(np.float16))
    recorder.add(":sin", result)
    trace = recorder.trace("candidate", program.inputs, {"output": result}, "by hand", program)
    found = Judge(program, trace).error(":sin")
    assert found.error > 100 * EPS, "float32 alone does not explain it"
    assert (found.ratio > 1) == wrong


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
