"""Programs prepared for execution."""

import pytest

from kokoro_nb.backends.mil.execution_plan import ExecutionPlan


@pytest.fixture(scope="module")
def function(mil):
    from coremltools.converters.mil.mil import Builder as mb

    def body(x):
        outer = mb.exp(x=x, name="outer")
        mb.sin(x=x, name="unread")
        branch = mb.cond(
            pred=mb.greater(x=mb.reduce_sum(x=x, name="sum"), y=0.0, name="positive"),
            _true_fn=lambda: mb.mul(x=mb.tanh(x=outer, name="inner"), y=2.0, name="twice"),
            _false_fn=lambda: mb.identity(x=outer, name="same"),
        )
        return mb.add(x=branch, y=1.0, name="result")

    return mil.program({"x": (2,)}, body).functions["main"]


def _plan(function):
    plan = ExecutionPlan()
    plan.add(function)
    return plan


def _done(operations):
    return {one.operation.name: sorted(variable.name for variable in one.done_with) for one in operations}


def test_a_value_is_done_with_after_its_last_reader_nested_ones_included(function):
    plan = _plan(function)
    outer = _done(plan.operations[function])
    (name,) = set(outer) - {"outer", "unread", "sum", "positive", "result"}
    assert outer == {
        "outer": [],
        "unread": ["unread"],
        "sum": [],
        "positive": ["sum"],
        name: ["outer", "positive"],  # both branches read `outer`
        "result": [name],
    }
    first, _ = (block for block in plan.operations if block is not function)
    assert _done(plan.operations[first]) == {"inner": [], "twice": ["inner"]}


def test_constants_are_no_operations(function):
    plan = _plan(function)
    assert {one.operation.op_type for one in plan.all_operations()} == {
        *("exp", "sin", "reduce_sum", "greater", "cond", "tanh", "mul", "identity", "add")
    }
    assert len(plan.constants) >= 3
