"""Records of where nodes come from are shared by copies, and name the same operators."""

import copy

import torch
from torch import nn
from torch.fx.traceback import NodeSource

from kokoro_nb.backends.exported import export_program
from kokoro_nb.backends.provenance import share_provenance


def history(source):
    return source.name, source.pass_name, [history(one) for one in source.from_node]


def lowered():
    from executorch.exir import to_edge

    program = export_program(nn.Sequential(nn.Linear(4, 4), nn.GELU(), nn.LayerNorm(4)), {"input": torch.ones(2, 4)})
    edge = to_edge(program.program).exported_program()
    return [[history(one) for one in node.meta.get("from_node", [])] for node in edge.graph.nodes]


def test_the_history_is_that_of_copied_records(monkeypatch):
    share_provenance()
    shared = lowered()
    monkeypatch.delattr(NodeSource, "__deepcopy__")
    monkeypatch.setattr("kokoro_nb.backends.exported.share_provenance", lambda: None)
    assert shared == lowered()
    assert any(one for one in shared)


def test_a_copied_list_is_another_list_of_the_same_records():
    share_provenance()
    graph = torch.fx.symbolic_trace(nn.Identity()).graph
    records = [NodeSource(node, "a pass") for node in graph.nodes]
    copied = copy.deepcopy(records)
    assert copied is not records
    assert all(one is other for one, other in zip(copied, records, strict=True))
