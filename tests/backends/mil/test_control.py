"""Conditions, loops, lists and states."""

import numpy as np
import pytest

from kokoro_nb.backends.mil.interpreter import Interpreter
from kokoro_nb.backends.mil.rounding import FLOAT32, FLOAT64
from kokoro_nb.errors import InputError

# Executed by the programs below, which a table of single operators cannot hold.
CASES = dict.fromkeys(
    (
        *("cond", "while_loop", "read_state", "coreml_update_state"),
        *("make_list", "list_length", "list_read", "list_write", "list_gather", "list_scatter"),
    ),
    (),
)


def _values(outputs):
    return [output.tolist() for output in outputs.values()]


def test_a_condition_runs_one_of_two_programs(mil, mb):
    def body(x):
        return mb.cond(
            pred=mb.greater(x=mb.reduce_sum(x=x, keep_dims=False), y=0.0),
            _true_fn=lambda: (mb.mul(x=x, y=2.0), mb.identity(x=x)),
            _false_fn=lambda: (mb.sub(x=0.0, y=x), mb.add(x=x, y=1.0)),
        )

    interpreter = Interpreter(mil.program({"x": (2,)}, body, "iOS18"))
    assert _values(interpreter.run({"x": np.array([1.0, 2.0], "float32")})) == [[2.0, 4.0], [1.0, 2.0]]
    assert _values(interpreter.run({"x": np.array([-1.0, -2.0], "float32")})) == [[1.0, 2.0], [0.0, -1.0]]


def test_a_loop_runs_on_its_own_results(mil, mb):
    def body(x):
        return mb.while_loop(
            _cond=lambda i, total: mb.less(x=i, y=5.0),
            _body=lambda i, total: (mb.add(x=i, y=1.0), mb.add(x=mb.mul(x=total, y=2.0), y=x)),
            loop_vars=(mb.identity(x=0.0), mb.identity(x=x)),
        )

    interpreter = Interpreter(mil.program({"x": (1,)}, body, "iOS18"))
    seen = []
    outputs = interpreter.run({"x": np.ones(1, "float32")}, observe=lambda kind, *_: seen.append(kind))
    assert _values(outputs) == [5.0, [63.0]]  # 2^6 - 1
    assert (seen.count("less"), seen.count("mul"), seen[-1]) == (6, 5, "while_loop")


def test_a_list_is_written_read_and_grows(mil, mb):
    def body(x):
        ls = mb.make_list(init_length=2, elem_shape=(2,), dynamic_length=True)
        both = mb.stack(values=[x, mb.mul(x=x, y=2.0)], axis=0)
        ls = mb.list_scatter(ls=ls, indices=np.array([1, 0], "int32"), value=both)
        grown = mb.list_write(ls=ls, index=3, value=mb.mul(x=x, y=3.0))
        return (
            mb.list_read(ls=ls, index=0),
            mb.list_gather(ls=grown, indices=np.array([3, 1], "int32")),
            mb.list_length(ls=grown),
            mb.list_length(ls=ls),
        )

    interpreter = Interpreter(mil.program({"x": (2,)}, body, "iOS18"))
    outputs = _values(interpreter.run({"x": np.array([1.0, 2.0], "float32")}))
    assert outputs == [[2.0, 4.0], [[3.0, 6.0], [1.0, 2.0]], 4, 2]


def test_a_place_of_a_list_that_was_not_written_is_an_error(mil, mb):
    def body(x):
        written = mb.list_write(ls=mb.make_list(init_length=2, elem_shape=(2,)), index=0, value=x)
        return mb.list_read(ls=written, index=1)

    with pytest.raises(IndexError, match="nothing at place 1"):
        Interpreter(mil.program({"x": (2,)}, body, "iOS18")).run({"x": np.ones(2, "float32")})


@pytest.fixture
def counting(mil, mb):
    def body(x, state):
        total = mb.add(x=mb.read_state(input=state), y=x)
        return mb.mul(x=mb.coreml_update_state(state=state, value=total), y=1.0)

    return mil.program({"x": (2,), "state": (2,)}, body, "iOS18")


@pytest.mark.parametrize("arithmetic", [FLOAT32, FLOAT64])
def test_a_state_lives_where_the_caller_keeps_it(counting, arithmetic):
    interpreter = Interpreter(counting, arithmetic)
    x = {"x": np.array([1.0, 2.0], "float32")}
    assert interpreter.states == ("state",)
    assert interpreter.inputs == ("x",)
    state = {"state": np.array([10.0, 20.0], "float32")}
    assert _values(interpreter.run(x, state=state)) == [[11.0, 22.0]]
    assert _values(interpreter.run(x, state=state)) == [[12.0, 24.0]]
    assert state["state"].tolist() == [12.0, 24.0]
    assert _values(interpreter.run(x)) == _values(interpreter.run(x)) == [[1.0, 2.0]]  # from zeros, forgotten


def test_a_state_that_does_not_fit_is_refused(counting):
    interpreter = Interpreter(counting)
    for state in ({}, {"state": np.zeros(3, "float32")}):
        with pytest.raises(InputError, match=r"State 'state' is missing, or not of shape \(2,\)"):
            interpreter.run({"x": np.ones(2, "float32")}, state=state)
