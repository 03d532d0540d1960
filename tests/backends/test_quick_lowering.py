import gc

import pytest
import torch
from torch import nn
from torch.fx import GraphModule

from kokoro_nb.backends import BACKENDS
from kokoro_nb.backends.base import quietly
from kokoro_nb.backends.executorch.quick_lowering import quick_lowering
from kokoro_nb.backends.exported import export_program

pass_base = pytest.importorskip("executorch.exir.pass_base")


class Stack(nn.Module):
    """What XNNPACK takes in several pieces, with activations that it fuses and copies that it takes out."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv1d(4, 4, 3, padding=1) for _ in range(3))

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x.clone()))
            x = x - torch.cumsum(x, -1)
        return torch.cat([x, x[:, :1] * 2.0], 1)


X = (torch.linspace(-1, 1, 4 * 12).reshape(1, 4, 12),)


def _file():
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import to_edge_transform_and_lower

    torch.manual_seed(0)
    with quietly():
        program = torch.export.export(Stack().eval(), X)
        return to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()]).to_executorch().buffer


@pytest.fixture
def counted(monkeypatch):
    """Return how often a graph is traced by a pass, and how often code is written."""
    counts = {"traces": 0, "codes": 0}
    trace, code = pass_base._ExportPassBase.call_submodule, GraphModule.recompile

    def counted_trace(self, *arguments):
        counts["traces"] += 1
        return trace(self, *arguments)

    def counted_code(self):
        counts["codes"] += 1
        return code(self)

    monkeypatch.setattr(pass_base._ExportPassBase, "call_submodule", counted_trace)
    monkeypatch.setattr(GraphModule, "recompile", counted_code)
    return counts


def test_the_file_is_the_same_to_the_byte_for_half_the_traces(counted):
    plain = _file()
    usual = dict(counted)
    with quick_lowering():
        quick = _file()
        gc.collect()  # what is left gets its code at the end, be it garbage
    assert quick == plain
    assert counted["traces"] - usual["traces"] < usual["traces"] / 2
    assert counted["codes"] - usual["codes"] < usual["codes"] / 4


def test_backends_lower_so(counted, tmp_path):
    _file()
    usual = dict(counted)
    BACKENDS["executorch-xnnpack"].export(Stack(), {"x": X[0]}, tmp_path)
    assert counted["traces"] - usual["traces"] < usual["traces"] / 2


class Doubled(pass_base.ExportPass):
    """A pass that changes what is added while it traces."""

    def call_operator(self, op, args, kwargs, meta):
        if op is torch.ops.aten.add.Tensor:
            return super().call_operator(torch.ops.aten.mul.Tensor, args, kwargs, meta)
        return super().call_operator(op, args, kwargs, meta)


class Plain(pass_base.ExportPass):
    """A pass that changes nothing."""


def _adding():
    class Adding(nn.Module):
        def forward(self, x):
            return x + 3.0

    return torch.export.export(Adding().eval(), X).run_decompositions({}).graph_module


def test_a_program_is_decomposed_where_there_is_something_to_decompose():
    made = torch.export.export(Stack().eval(), X)
    table = {torch.ops.aten.relu.default: lambda x: torch.clamp(x, min=0.0)}
    with quick_lowering():
        functional = made.run_decompositions({})
        assert functional is not made, "it may still write in place"
        assert functional.run_decompositions({}) is functional
        other = functional.run_decompositions({torch.ops.aten.sin.default: torch.sin})
        decomposed = functional.run_decompositions(table)
    assert other is functional
    targets = [{node.target for node in one.graph.nodes} for one in (functional, decomposed)]
    assert [torch.ops.aten.relu.default in one for one in targets] == [True, False]


def test_an_export_is_decomposed_once(monkeypatch, tmp_path):
    made, decompose = [], torch.export.exported_program._decompose_exported_program

    def counted(program, **options):
        made.append(program)
        return decompose(program, **options)

    exported = export_program(Stack(), {"x": X[0]})
    assert exported.specification.operators
    _file()  # the patterns of XNNPACK's passes are made once
    monkeypatch.setattr(torch.export.exported_program, "_decompose_exported_program", counted)
    BACKENDS["executorch-xnnpack"].export(exported, {"x": X[0]}, tmp_path)
    assert len(made) == 1


def test_a_pass_that_changes_operators_traces_what_another_has_traced():
    with quick_lowering():
        traced = Plain()(_adding()).graph_module
        assert Plain()(traced).graph_module is traced
        changed = Doubled()(traced).graph_module
    assert changed(*X)[0].equal(3.0 * X[0])


def test_a_graph_that_was_edited_is_traced_again():
    with quick_lowering():
        traced = Plain()(_adding()).graph_module
        (addition,) = (node for node in traced.graph.nodes if node.target is torch.ops.aten.add.Tensor)
        addition.args = (addition.args[0], 5.0)
        again = Plain()(traced).graph_module
    assert again is not traced
    assert again(*X)[0].equal(X[0] + 5.0)


def test_code_is_there_inside_and_afterwards():
    with quick_lowering():
        module = _adding()
        assert module(*X)[0].equal(X[0] + 3.0)
        left = _adding()
    assert "add" in left.code
    assert left(*X)[0].equal(X[0] + 3.0)


def test_afterwards_all_is_as_before():
    before = pass_base._ExportPassBase.call, GraphModule.recompile
    with pytest.raises(ZeroDivisionError), quick_lowering():
        raise ZeroDivisionError
    assert (pass_base._ExportPassBase.call, GraphModule.recompile) == before
