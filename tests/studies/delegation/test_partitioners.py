from kokoro_nb.backends.executorch.partition import Placement
from kokoro_nb.studies.delegation import ALL, Partitions


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
