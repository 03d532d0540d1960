from kokoro_nb.backends.base import Failure
from kokoro_nb.backends.executorch.partition import Placement
from kokoro_nb.backends.qnn.assignment import Assignment, Node
from kokoro_nb.studies.delegation import ALL, PATCHED, WHOLE, NpuNodes, Partitions


def test_what_is_taken_and_what_is_left_is_counted():
    placed = (
        Placement("a", "aten.convolution.default", "", 0),
        Placement("b", "aten.convolution.default", "", None, "its weight is no constant"),
        Placement("c", "aten.tanh.default", "", 1),
    )
    found = Partitions({("x", ALL): placed, ("x", "without a patch"): placed[1:2]}, {})
    assert found.rows()[0] == {"backend": "x", "patches": ALL, "operators": 3, "delegated": 2, "left": 1, "pieces": 2}
    assert found.convolutions("x") == (1, 2)
    assert found.convolutions("x", "without a patch") == (0, 1)
    (left,) = found.left()
    assert (left["operator"], left["left"], left["delegated"]) == ("aten.convolution.default", 1, 1)
    assert left["why"] == "its weight is no constant"


def test_a_graph_that_does_not_compile_has_nothing_on_the_npu():
    failure = Failure("qnn", "serialised", "RuntimeError", "no such operator")
    nodes = (Node("a", "Conv", "", "npu"), Node("b", "If", "", "cpu"), Node("c", "Loop", "", "unknown"))
    found = NpuNodes("qnn", "", {WHOLE: failure, PATCHED: Assignment(nodes, {})})
    assert found.failure is None
    assert (found.count(WHOLE, "npu"), found.count(PATCHED, "npu"), found.count(PATCHED, "cpu", "unknown")) == (0, 1, 2)
    assert "no such operator" in found.rows()[0]["refusal"]
    assert NpuNodes("qnn", "", {PATCHED: failure}).failure is failure
