from kokoro_nb.backends.base import Failure
from kokoro_nb.backends.qnn.assignment import Assignment, Node
from kokoro_nb.studies.delegation import PATCHED, WHOLE, NpuNodes


def test_a_graph_that_does_not_compile_has_nothing_on_the_npu():
    failure = Failure("qnn", "serialised", "RuntimeError", "no such operator")
    nodes = (Node("a", "Conv", "", "npu"), Node("b", "If", "", "cpu"), Node("c", "Loop", "", "unknown"))
    found = NpuNodes("qnn", "", {WHOLE: failure, PATCHED: Assignment(nodes, {})})
    assert found.failure is None
    assert (found.count(WHOLE, "npu"), found.count(PATCHED, "npu"), found.count(PATCHED, "cpu", "unknown")) == (0, 1, 2)
    assert "no such operator" in found.rows()[0]["refusal"]
    assert NpuNodes("qnn", "", {PATCHED: failure}).failure is failure
