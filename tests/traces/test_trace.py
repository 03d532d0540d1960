import numpy as np
import pytest

from kokoro_nb.errors import InputError
from kokoro_nb.traces.statistics import describe
from kokoro_nb.traces.trace import Operator, Recorder, sharing


def _operator(name, shape=(2, 3)):
    return Operator(name, "aten.relu.default", "encoder", ("input:x",), shape, "float32")


OPERATORS = (_operator("one"), _operator("two"), _operator("three"))


def _recorded(keep, *names):
    recorder = Recorder(OPERATORS, keep)
    for value, name in enumerate(names):
        recorder.add(name, np.full((2, 3), value, np.float32))
    return recorder.trace("eager", {"x": np.ones(1)}, {"output": np.ones(2)}, "by hand")


def test_taps_come_in_the_order_of_the_program_and_what_did_not_come_is_missing():
    trace = _recorded("stats", "three", "one")
    assert [tap.name for tap in trace.taps] == ["one", "three"]
    assert (trace.missing, trace.requested) == (("two",), OPERATORS)
    assert (trace.backend, trace.how, trace.meaning) == ("eager", "by hand", None)
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


def test_a_tap_that_is_not_there_is_refused_with_the_reason():
    trace = _recorded("stats", "one")
    with pytest.raises(InputError, match="no tap 'two': it could not be captured"):
        trace["two"]
    with pytest.raises(InputError, match="no tap 'four': it was not requested"):
        trace["four"]


def test_there_are_two_ways_to_record_a_tap():
    with pytest.raises(InputError, match="'all' is not a way to record a tap; use 'stats' or 'full'"):
        Recorder(OPERATORS, "all")


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
