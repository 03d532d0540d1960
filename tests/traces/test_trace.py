import numpy as np
import pytest

from kokoro_nb.errors import InputError
from kokoro_nb.traces.statistics import describe
from kokoro_nb.traces.trace import Operator, Recorder, chosen, sharing
from tests.refusals import refused

ABOUT = ("aten.relu.default", "encoder", ("input:x",), (2, 3), "float32")
OPERATORS = (Operator("one", *ABOUT), Operator("two", *ABOUT), Operator("three", *ABOUT))


def _recorded(keep, *names):
    recorder = Recorder(OPERATORS, keep)
    for value, name in enumerate(names):
        recorder.add(name, np.full((2, 3), value, np.float32))
    return recorder.trace("eager", {"x": np.ones(1)}, {"output": np.ones(2)}, "by hand")


def test_the_chosen_come_in_the_order_of_execution_and_once():
    assert chosen(OPERATORS) == chosen(OPERATORS, "all") == OPERATORS
    assert chosen(OPERATORS, ["three", "one", "three"]) == (OPERATORS[0], OPERATORS[2])
    assert chosen(OPERATORS, lambda operator: operator.name != "one") == OPERATORS[1:]


def test_an_unknown_name_is_refused_with_what_comes_near():
    refused(r"no operator 'thre'; did you mean three", chosen, OPERATORS, ["one", "thre"])
    refused(r"no operator 'zzz'; see the names", chosen, OPERATORS, "zzz")


def test_taps_come_in_the_order_of_the_program_and_what_did_not_come_is_missing():
    trace = _recorded("stats", "three", "one")
    assert [tap.name for tap in trace.taps] == ["one", "three"]
    about = (trace.missing, trace.requested, trace.backend, trace.how, trace.meaning)
    assert about == (("two",), OPERATORS, "eager", "by hand", None)
    assert trace["one"].statistics.mean == 1


def test_statistics_are_kept_without_the_tensor_or_with_a_copy_of_it():
    assert _recorded("stats", "one").values == {}
    value = np.ones((2, 3), np.float32)
    recorder = Recorder(OPERATORS, "full")
    recorder.add("one", value)
    value[:] = 7  # a runtime uses its memory again
    trace = recorder.trace("eager", {}, {}, "")
    np.testing.assert_array_equal(trace.values["one"], 1)
    assert trace["one"].statistics == describe(np.ones((2, 3), np.float32))


@pytest.mark.parametrize(("name", "why"), [("two", "it could not be captured"), ("four", "it was not requested")])
def test_a_tap_that_is_not_there_is_refused_with_the_reason(name, why):
    with pytest.raises(InputError, match=f"no tap '{name}': {why}"):
        _recorded("stats", "one")[name]


def test_a_trace_says_what_is_missing_and_shows_no_tensor():
    said = repr(_recorded("full", "one"))
    assert "missing=('two', 'three')" in said
    assert "array" not in said


def test_equal_tensors_of_two_traces_lie_in_memory_once_and_others_stay():
    first, second = _recorded("full", "one", "two", "three"), _recorded("full", "one", "two", "three")
    second["two"].value[0, 0] = 5
    second["one"].value[0, 0] = -0.0  # another bit, though it equals 0
    shared = sharing(second, first)
    assert [shared.values[name] is first.values[name] for name in ("one", "two", "three")] == [False, False, True]
    assert [shared.values[name] is second.values[name] for name in ("one", "two")] == [True, True]
    assert sharing(_recorded("stats", "one"), first).values == {}
