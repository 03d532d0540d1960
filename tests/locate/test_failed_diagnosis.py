"""A failed export whose error names an operator of the program is localised; one that names none is not."""

import torch
from torch import nn

from kokoro_nb.backends.base import Failure
from kokoro_nb.backends.exported import export_program
from kokoro_nb.locate.failed_diagnosis import failed_diagnosis


class Noisy(nn.Module):
    def forward(self, x):
        return torch.sin(x) + torch.randn(4)


INPUTS = {"x": torch.zeros(4)}


def _found(message):
    exported = export_program(Noisy(), INPUTS)
    return failed_diagnosis(Failure("tvm", "lowered", "NotImplementedError", message), exported, INPUTS)


def test_the_operator_that_the_error_names_is_the_culprit():
    found = _found("'aten.randn.default' draws random numbers")
    assert (found.verdict, found.exit_status, found.first.tap.name) == ("fail", 1, ":randn")
    assert found.first.mechanism.name == "baked-in random numbers"
    assert found.first.source.startswith("test_failed_diagnosis.py:")


def test_an_error_that_names_none_is_not_localised():
    found = _found("out of memory")
    assert (found.verdict, found.exit_status, found.culprits) == ("fail", 3, ())
    assert "one by one" in found.next_step
