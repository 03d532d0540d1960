from dataclasses import replace

import numpy as np
import pytest

from kokoro_nb.errors import InputError
from kokoro_nb.locate.verdicts import divergences, first_nonfinite, local_errors, uncovered
from kokoro_nb.traces.trace import Trace
from tests.locate.function_modules import first_divergence
from tests.locate.normed_signals import with_channels
from tests.refusals import refused

NOTHING = Trace("eager", ())  # of which everything has to be finite


@pytest.fixture
def program(toy):
    return toy()


def test_a_sound_run_passes(program):
    trace = program.trace()
    assert first_nonfinite(program.trace(), trace) is None
    assert divergences(program.trace(), trace) == uncovered(program.trace(), trace) == ()
    assert [error.operator.name for error in local_errors(program.trace(), trace)] == [tap.name for tap in trace.taps]


def test_a_part_of_the_operators_does_not_speak_for_all(program):
    some = program.trace({":sin": with_channels([1], 1.0)}, taps=[":mul", ":view"])
    assert first_divergence(program.trace(), some) is None
    assert uncovered(program.trace(), some)[0] == ":sin"


@pytest.mark.parametrize("keep", ["stats", "full"])
def test_the_source_is_named_and_who_inherits_is_not(program, keep):
    found = first_nonfinite(NOTHING, program.trace({":sin": with_channels([1], np.nan)}, keep=keep))
    assert (found.verdict, found.name, found.tap.op, found.tap.module_path) == ("fail", ":sin", "aten.sin.default", "")
    assert (found.candidates, found.upstream, found.reaches_output) == ((":sin",), (":view",), True)
    assert found.channels == "1 of 4 channels wholly non-finite"


def test_a_fault_that_a_clamp_hides_is_found(program):
    trace = program.trace({":add": with_channels([1], np.inf)})
    assert np.isfinite(trace.outputs["output"]).all()
    found = first_nonfinite(NOTHING, trace)
    assert (found.verdict, found.tap.name, found.reaches_output) == ("fail", ":add", False)
    assert "the output does not show it" in found.statement


@pytest.mark.parametrize("lost", [(":sin",), (":sin", ":view"), (":sin", ":tanh", ":view", ":mul")])
def test_what_was_not_captured_before_it_are_candidates(program, lost):
    found = first_nonfinite(NOTHING, program.trace({":sin": with_channels([1], np.nan)}, missing=lost))
    assert (found.verdict, found.tap.name) == ("unknown", ":add")
    assert set(found.candidates) == {":add", *lost}
    assert found.reason == "its inputs were not captured"


def test_a_view_that_was_not_captured_is_as_finite_as_what_it_shows(program):
    found = first_nonfinite(NOTHING, program.trace({":sin": with_channels([1], np.nan)}, missing=[":view"]))
    assert (found.verdict, found.tap.name, found.candidates) == ("fail", ":sin", (":sin",))
    found = first_nonfinite(NOTHING, program.trace({":mul": with_channels([1], np.nan)}, missing=[":view"]))
    assert (found.verdict, found.tap.name) == ("fail", ":mul")


def test_inputs_that_are_not_finite_leave_nobody_to_blame(toy, step):
    x = np.ones((1, 2, 4), np.float32)
    x[0, 1, 2] = np.nan
    steps = {":neg": step("neg.default", lambda x: -x, "input:x"), ":abs": step("abs.default", np.abs, ":neg")}
    found = first_nonfinite(NOTHING, toy(steps, {"x": x}).trace())
    assert (found.verdict, found.tap.name) == ("unknown", ":neg")
    assert (found.candidates, found.reason) == ((":neg",), "its inputs are not finite either")


def test_of_a_constant_that_is_not_finite_the_operator_that_reads_it_is_named(toy, step):
    steps = {
        ":neg": step("neg.default", lambda x: -x, "input:x"),
        ":mul": step("mul.Tensor", lambda x, w: x * w, ":neg", "constant:w"),
    }
    found = first_nonfinite(NOTHING, toy(steps, constants={"w": np.float32(np.nan)}).trace())
    assert (found.verdict, found.tap.name, found.upstream) == ("fail", ":mul", (":neg", "constant:w"))


def test_an_empty_tensor_is_no_fault(toy, step):
    steps = {
        ":slice": step("slice.Tensor", lambda x: x[..., :0], "input:x"),
        ":cat": step("cat.default", lambda x, y: np.concatenate([x, y], axis=-1), ":slice", "input:x"),
    }
    program = toy(steps)
    assert first_nonfinite(program.trace(), program.trace()) is None
    found = first_nonfinite(NOTHING, program.trace({":cat": with_channels([1], np.nan)}))
    assert (found.verdict, found.tap.name) == ("fail", ":cat")


def test_what_was_not_captured_is_unknown_even_if_all_else_is_finite(program):
    assert uncovered(program.trace(), program.trace(missing=[":sin"])) == (":sin",)
    # it is known that a view computes nothing
    assert uncovered(program.trace(), program.trace(missing=[":view"])) == ()


def test_one_fault(program):
    found = divergences(program.trace(), program.trace({":tanh": lambda x: x * np.float32(1.01)}))
    assert [(one.verdict, one.tap.name, one.candidates) for one in found] == [("fail", ":tanh", (":tanh",))]
    (one,) = found
    assert one.local_error == pytest.approx(0.01, rel=1e-3)
    assert one.inherited_error == pytest.approx(0, abs=1e-7)
    assert one.ratio > 1000
    assert one.upstream == (":view",)
    assert one.reaches_output


def test_independent_faults_are_all_found_each_with_its_own_error(program):
    faults = {":mul": lambda x: x * np.float32(1.1), ":tanh": lambda x: -x, ":add": lambda x: x + np.float32(0.5)}
    found = divergences(program.trace(), program.trace(faults))
    assert [one.tap.name for one in found] == [":mul", ":tanh", ":add"]
    assert first_divergence(program.trace(), program.trace(faults)).as_dict() == found[0].as_dict()
    mul, tanh, _ = found
    assert (mul.local_error, mul.inherited_error) == (pytest.approx(0.1, rel=1e-5), pytest.approx(0, abs=1e-7))
    assert tanh.local_error == pytest.approx(2, rel=1e-5)
    reference, wrong = program.trace().values, 3.3 * program.inputs["x"].astype(float)
    gap = np.abs(np.tanh(wrong) - reference[":tanh"]).max() / np.abs(reference[":tanh"]).max()
    assert tanh.inherited_error == pytest.approx(gap, rel=1e-4)


def test_of_a_fault_that_was_not_captured_the_reader_and_what_is_before_it_are_candidates(program):
    trace = program.trace({":sin": lambda x: -x}, missing=[":sin"])
    (found,) = divergences(program.trace(), trace)
    assert (found.tap.name, found.candidates) == (":add", (":add", ":sin"))
    # the tangent, which is right, is computed from it as well; so the view is in question by itself alone
    trace = program.trace({":sin": lambda x: -x}, missing=[":sin", ":view"])
    (found,) = divergences(program.trace(), trace)
    assert (found.tap.name, set(found.candidates)) == (":add", {":add", ":sin", ":view"})


def test_what_several_wrong_readers_share_is_the_candidate(program):
    trace = program.trace({":view": lambda x: x[..., ::-1]}, missing=[":view"])
    (found,) = divergences(program.trace(), trace)
    assert (found.tap.name, found.candidates) == (":sin", (":view",))


def test_what_a_reader_that_is_right_shares_too_is_not_blamed_for_two_faults(toy, step):
    steps = {
        ":mul": step("mul.Tensor", lambda x: x * 3, "input:x"),
        ":sin": step("sin.default", np.sin, ":mul"),
        ":tanh": step("tanh.default", np.tanh, ":mul"),
        ":cos": step("cos.default", np.cos, ":mul"),
    }
    program = toy(steps)
    trace = program.trace({":sin": lambda x: -x, ":cos": lambda x: -x}, missing=[":mul"])
    found = divergences(program.trace(), trace)
    assert [(one.tap.name, one.candidates) for one in found] == [(":sin", (":sin", ":mul")), (":cos", (":cos", ":mul"))]


@pytest.mark.parametrize("last", [2.0, np.nan])
def test_outputs_that_are_rightly_not_finite_are_no_difference(toy, step, last):
    x = np.float32([[np.nan, np.inf, last]])
    steps = {
        ":abs": step("abs.default", np.abs, "input:x"),
        ":cat": step("cat.default", lambda a, x: x, ":abs", "input:x"),
    }
    program = toy(steps, {"x": x})
    found = first_divergence(program.trace(), program.trace({":abs": lambda y: np.where(np.isinf(y), 7, y + 1)}))
    assert (found.tap.name, found.reaches_output) == (":abs", False)


def test_a_captured_twin_speaks_for_what_a_backend_computes_once(toy, step):
    steps = {
        ":sin": step("sin.default", np.sin, "input:x"),
        ":sin#2": step("sin.default", np.sin, "input:x"),
        ":add": step("add.Tensor", np.add, ":sin", ":sin#2"),
    }
    program = toy(steps)
    assert uncovered(program.trace(), program.trace(missing=[":sin#2"])) == ()
    assert uncovered(program.trace(), program.trace(missing=[":sin", ":sin#2"])) == (":sin", ":sin#2")


def test_what_is_computed_from_constants_alone_may_be_folded(toy, step):
    steps = {
        ":neg": step("neg.default", lambda w: -w, "constant:w"),
        ":abs": step("abs.default", np.abs, ":neg"),
        ":mul": step("mul.Tensor", np.multiply, "input:x", ":abs"),
    }
    program = toy(steps, constants={"w": np.float32(2)})
    assert uncovered(program.trace(), program.trace(missing=[":neg", ":abs"])) == ()


def test_statistics_alone_are_refused(program):
    refused("statistics alone", first_divergence, program.trace(), program.trace(keep="stats"))
    # of the reference the values are not needed, but for what was inherited
    found = first_divergence(program.trace(keep="stats"), program.trace({":sin": lambda x: -x}))
    assert (found.tap.name, found.inherited_error) == (":sin", None)


def test_different_inputs_are_refused(program, toy):
    with pytest.raises(InputError, match=r"different inputs \('x'\)"):
        first_divergence(program.trace(), toy(inputs={"x": program.inputs["x"] + 1}).trace())


def test_a_reference_without_a_meaning_is_refused(program):
    refused("trace the eager program", first_divergence, replace(program.trace(), meaning=None), program.trace())


def test_what_is_not_finite_in_the_reference_either_is_no_fault(toy, step):
    steps = {":log": step("log.default", np.log, "input:x"), ":exp": step("exp.default", np.exp, ":log")}
    program = toy(steps, inputs={"x": np.array([0, 1], np.float32)})
    with np.errstate(divide="ignore"):
        healthy = program.trace()
        broken = program.trace({":exp": lambda x: np.full_like(x, np.nan)})
    assert first_nonfinite(NOTHING, healthy).tap.name == ":log"
    assert first_nonfinite(healthy, healthy) is None
    assert first_nonfinite(healthy, broken).tap.name == ":exp"
    assert first_nonfinite(healthy, broken).verdict == "fail"


@pytest.mark.parametrize("scale", [1.0, 2.0**-10])
@pytest.mark.parametrize("share", [0.75, -0.75, 1.5, -1.5])
def test_an_output_shows_what_is_above_a_hundred_thousandth_of_its_peak(toy, step, share, scale):
    x = np.float32([[4.0, 1.0, -2.0]]) * np.float32(scale)
    steps = {":abs": step("abs.default", np.abs, "input:x"), ":add": step("add.Tensor", lambda a: a + 0, ":abs")}

    def off(values):
        values = values.copy()
        values[0, 1] += np.float32(share * 4e-5 * scale)
        return values

    program = toy(steps, {"x": x})
    found = first_divergence(program.trace(), program.trace({":abs": off}))
    assert (found.tap.name, found.reaches_output) == (":abs", abs(share) > 1)


@pytest.mark.parametrize(("level", "inherited"), [(0, np.inf), (4, 0.25), (0.5, 2.0)])
def test_what_was_inherited_is_a_share_of_the_references_peak_and_of_0_infinite(toy, step, level, inherited):
    x = np.full((1, 4), level, np.float32)
    steps = {":abs": step("abs.default", np.abs, "input:x"), ":mul": step("mul.Tensor", lambda a: a * 1, ":abs")}
    program = toy(steps, {"x": x})
    first, second = divergences(program.trace(), program.trace({":abs": lambda a: a + 1, ":mul": lambda a: a + 1}))
    assert (first.inherited_error, second.inherited_error) == (0.0, inherited)


def test_only_what_is_wrong_holds_its_tensors(program):
    found = local_errors(program.trace(), program.trace({":sin": lambda x: -x}))
    held = [error.operator.name for error in found if error.given.size]
    assert held == [error.operator.name for error in found if error.ratio > 1] == [":sin"]
