"""The exported program, run by PyTorch itself."""

import numpy as np
import pytest
import torch
from torch import nn

from kokoro_nb.backends.exported import InterpretedProgram, export_program
from kokoro_nb.errors import InputError


class Pair(nn.Module):
    def forward(self, x, y):
        return {"b": x - y, "a": torch.exp(x)}


@pytest.fixture
def program():
    exported = export_program(Pair(), {"x": torch.zeros(3), "y": torch.zeros(3)})
    return InterpretedProgram(exported.program, exported.inputs, exported.outputs)


def test_computes_what_the_module_does_by_name(program):
    x, y = torch.tensor([1.0, -2.0, float("nan")]), torch.tensor([3.0, float("inf"), 0.0])
    outputs = program.run({"y": y, "x": x})
    assert tuple(outputs) == ("b", "a")
    np.testing.assert_array_equal(outputs["b"], (x - y).numpy())
    np.testing.assert_array_equal(outputs["a"], torch.exp(x).numpy())


def test_outputs_are_the_callers_own(program):
    inputs = {"x": torch.ones(3), "y": torch.ones(3)}
    program.run(inputs)["b"][:] = 7
    assert program.run(inputs)["b"].tolist() == [0, 0, 0]


def test_refuses_inputs_that_do_not_fit(program):
    with pytest.raises(InputError, match=r"shape \(4,\), but the program was exported for \(3,\)"):
        program.run({"x": torch.zeros(4), "y": torch.zeros(3)})
