import pytest

from kokoro_nb.errors import InputError
from kokoro_nb.traces.trace import Operator, chosen


def _operator(name, module_path=""):
    return Operator(name, "aten.relu.default", module_path, ("input:x",), (1,), "float32")


OPERATORS = (_operator("b:relu", "b"), _operator("a:relu", "a"), _operator("a:relu#2", "a"))


def test_those_requested_come_in_the_order_of_execution_and_once():
    assert chosen(OPERATORS) == chosen(OPERATORS, "all") == OPERATORS
    assert chosen(OPERATORS, ["a:relu#2", "b:relu", "a:relu#2"]) == (OPERATORS[0], OPERATORS[2])
    assert chosen(OPERATORS, lambda operator: operator.module_path == "a") == OPERATORS[1:]


def test_an_unknown_name_is_refused_with_what_comes_near():
    with pytest.raises(InputError, match=r"no operator 'a:rely'; did you mean a:relu"):
        chosen(OPERATORS, ["b:relu", "a:rely"])
    with pytest.raises(InputError, match=r"no operator 'zzz'; see the names"):
        chosen(OPERATORS, "zzz")
