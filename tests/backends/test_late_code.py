import inspect

import pytest
import torch
from torch import nn
from torch.fx import GraphModule

from kokoro_nb.backends.base import quietly
from kokoro_nb.backends.exported import content, export_program
from kokoro_nb.backends.late_code import late_code


class Scaled(nn.Module):
    """Two inputs and several keywords, and a write in place, so that the export takes several steps."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x, scale, *more, bias=None):
        x = self.layer(x) * scale
        x[:, 0] = 0.0
        for one in more:
            x = x + one
        return x if bias is None else x + bias


ONES = torch.ones(2, 4)


@pytest.fixture
def codes(monkeypatch):
    """Return the graph modules that code is written for."""
    written, write = [], GraphModule.recompile

    def noted(self):
        written.append(self)
        return write(self)

    monkeypatch.setattr(GraphModule, "recompile", noted)
    return written


def _programs():
    torch.manual_seed(0)
    with quietly():
        program = torch.export.export(Scaled().eval(), (ONES, ONES, ONES), {"bias": ONES})
        return program, program.run_decompositions({})


def test_exports_are_the_same_for_less_code(codes):
    plain = [content(program) for program in _programs()]
    usual = len(codes)
    with late_code():
        late = [content(program) for program in _programs()]
    assert late == plain
    assert len(codes) - usual < usual / 2


def test_the_usual_export_writes_less_code(codes):
    _programs()
    usual = len(codes)
    export_program(Scaled(), {"x": ONES, "scale": ONES})
    assert len(codes) - usual < usual / 2


def test_the_signature_is_that_of_the_code(codes):
    program, _ = _programs()
    module = program.module()
    parameters = list(inspect.signature(module.forward).parameters)
    with late_code():
        module.recompile()
        assert list(inspect.signature(module.forward).parameters) == parameters
        assert module.code == ""
    assert "more_0" in parameters
    assert list(inspect.signature(module.forward).parameters) == parameters


def test_code_is_there_inside_and_afterwards():
    with late_code():
        program, functional = _programs()
        inside = program.module()(ONES, ONES, ONES, bias=ONES)
    assert functional.module()(ONES, ONES, ONES, bias=ONES).equal(inside)
    assert "linear" in program.graph_module.code


def test_afterwards_all_is_as_before():
    before = GraphModule.recompile
    with pytest.raises(ZeroDivisionError), late_code():
        raise ZeroDivisionError
    assert GraphModule.recompile == before
