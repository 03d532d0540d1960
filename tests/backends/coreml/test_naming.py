"""Names of operators that hold from before the float16 pass into the file."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from kokoro_nb.backends.coreml.naming import before_float16, name_of, settle
from kokoro_nb.backends.mil.saved_program import load_program


class Renamed(nn.Module):
    """Operators whose names coremltools makes differ from those of their results."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        first, second = self.linear(x.transpose(1, 2).sin()).chunk(2, dim=1)
        return first * second


INPUTS = {"x": torch.linspace(-1, 1, 16).reshape(1, 4, 4)}


def _operations(made):
    return [one for one in load_program(made.path).program.functions["main"].operations if one.op_type != "const"]


@pytest.mark.parametrize("route", ["export", "trace"])
def test_a_float16_copy_names_the_operator_of_the_float32_file(route, coreml, tmp_path):
    full, half = (
        _operations(replace(coreml, route=route, precision=precision).export(Renamed(), INPUTS, tmp_path))
        for precision in ("float32", "float16")
    )
    kinds = {name_of(operation): operation.op_type for operation in full}
    copies = [operation for operation in half if operation.op_type != "cast"]
    assert {operation.op_type for operation in copies} == {"transpose", "sin", "linear", "split", "mul"}
    for operation in copies:
        for place, variable in enumerate(operation.outputs):
            operator, copied_place = before_float16(variable.name)
            assert copied_place == place
            assert kinds[operator] == operation.op_type


def test_settling_twice_changes_nothing(coreml, tmp_path):
    program = load_program(coreml.export(Renamed(), INPUTS, tmp_path).path).program
    settle(program)
    names = [operation.name for operation in program.functions["main"].operations]
    settle(program)
    assert [operation.name for operation in program.functions["main"].operations] == names
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("name", ["x", "x_to_fp16", "sin_fp16", "_cast_fp16", "sin_cast_fp16_to_fp32"])
def test_other_names_are_no_copies(name):
    assert before_float16(name) is None


def test_a_copy_of_a_copy_is_named_after_the_first():
    assert before_float16("a_cast_fp16_cast_fp16") == ("a_cast_fp16", 0)
