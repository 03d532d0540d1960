"""A file run in groups: what a group's nodes read comes from the run that gives what they give."""

import itertools

import numpy as np
import pytest
from onnx import TensorProto, helper

from kokoro_nb.inspection import onnx_model
from kokoro_nb.inspection.file_run import FIRST, NodeGroups
from kokoro_nb.inspection.onnx_file import read_onnx
from kokoro_nb.inspection.onnx_model import nodes_of


def test_floats_of_16_bits_are_read_from_the_run_that_gives_the_results(save, monkeypatch):
    # such a runtime rounds at other places in each run: a copy of another run's value would be accused
    nodes = [helper.make_node("Cast", ["x"], ["h0"], to=TensorProto.FLOAT16)]
    nodes += [helper.make_node("Neg", [f"h{place}"], [f"h{place + 1}"]) for place in range(2 * FIRST)]
    last = f"h{2 * FIRST}"
    file = read_onnx(save(nodes, {"x": [2]}, [last], **{last: TensorProto.FLOAT16}))
    runs = itertools.count()

    def of_whole(session, inputs):
        run = next(runs)
        return {one.name: np.full(2, run, np.float16) for one in session.get_outputs()}

    monkeypatch.setattr(onnx_model, "run_session", of_whole)
    groups = NodeGroups(file, nodes_of(file.model.graph), {"x": np.ones(2, np.float32)})
    later = list(groups)[1:]
    assert later, "there is one group alone"
    for group, values in later:
        assert len({float(values[name][0]) for node in group for name in (*node.reads, *node.outputs)}) == 1


@pytest.mark.parametrize(("factor", "named"), [(1 + 1e-6, []), (1 + 1e-3, ["/neg (Neg)"])])
def test_a_difference_on_two_threads_beyond_rounding_is_named_where_it_begins(save, node, monkeypatch, factor, named):
    nodes = [node("Neg", ["x"], ["a"], name="/neg"), node("Exp", ["a"], ["y"], name="/exp")]
    file = read_onnx(save(nodes, {"x": [8]}, ["y"]))
    real, real_run, sessions = onnx_model.session_of, onnx_model.run_session, []

    def opened(model, threads=1):
        sessions.append((real(model), threads))
        return sessions[-1][0]

    def run(session, inputs):
        threads = next(count for one, count in sessions if one is session)
        results = real_run(session, inputs)
        return {name: value * np.float32(factor) for name, value in results.items()} if threads == 2 else results

    monkeypatch.setattr(onnx_model, "session_of", opened)
    monkeypatch.setattr(onnx_model, "run_session", run)
    groups = NodeGroups(file, nodes_of(file.model.graph), {"x": np.ones(8, np.float32)})
    assert [len(group) for group, _ in groups] == [2]
    assert [f"{node.key} ({node.operator})" for node in groups.unlike] == named
