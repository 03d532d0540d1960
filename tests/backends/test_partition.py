import pytest
import torch
from torch import nn

from kokoro_nb.backends import BACKENDS
from kokoro_nb.backends.base import RungError
from kokoro_nb.backends.executorch.partition import UNKNOWN, Placement, Share, partition_map, pieces, shares
from kokoro_nb.backends.exported import export_program
from kokoro_nb.errors import InputError
from tests.backends.small import Of, present

X = {"x": torch.linspace(-1, 1, 32).reshape(1, 4, 8)}
SLOW = pytest.param("executorch-vulkan", marks=pytest.mark.slow)
NORM, CONV = "aten._native_batch_norm_legit.no_stats", "aten.convolution.default"


class Block(nn.Module):
    """Two convolutions with the norm of Kokoro's blocks between them."""

    def __init__(self):
        super().__init__()
        self.one, self.norm, self.two = nn.Conv1d(4, 4, 3), nn.InstanceNorm1d(4, affine=True), nn.Conv1d(4, 4, 3)

    def forward(self, x):
        return torch.relu(self.two(self.norm(torch.relu(self.one(x)))))


def _exported(module, inputs=X):
    exported = export_program(module, inputs)
    assert hasattr(exported, "program"), str(exported)
    return exported


def _only(placements, operator):
    (found,) = (placement for placement in placements if placement.operator == operator)
    return found


def _delegates_in_the_file(name, exported):
    """Lower for good, and count the calls of the delegate."""
    from executorch.exir import to_edge_transform_and_lower

    edge = to_edge_transform_and_lower(exported.program, partitioner=[present(name).partitioner()])
    return sum("call_delegate" in str(node.target) for node in edge.exported_program().graph.nodes)


def test_an_instance_norm_stays_outside_xnnpack_and_cuts_the_graph_in_two():
    found = partition_map(present("executorch-xnnpack"), _exported(Block()))
    norm = _only(found, NORM)
    assert norm == Placement(norm.name, NORM, "norm", None, "XNNPACK's partitioner has no entry for the operator")
    convolutions = [placement for placement in found if placement.operator == CONV]
    assert [(conv.module, conv.delegate, conv.reason) for conv in convolutions] == [("one", 0, ""), ("two", 1, "")]
    assert pieces(found) == 2
    assert "getitem" not in {placement.operator for placement in found}


def test_vulkan_and_core_ml_say_why():
    class Odd(nn.Module):
        def forward(self, x, i):
            return torch.asinh(x), torch.abs(i)

    exported = _exported(Odd(), {**X, "i": torch.arange(4)})
    vulkan = {found.operator: found for found in partition_map(present("executorch-vulkan"), exported)}
    assert vulkan["aten.asinh.default"].reason == "no operator implementation"
    assert vulkan["aten.abs.default"].reason.startswith("input[0] dtype torch.int64 not in {")
    coreml = {found.operator: found for found in partition_map(present("executorch-coreml"), exported)}
    assert "is not supported by CoreML" in coreml["aten.asinh.default"].reason
    assert coreml["aten.abs.default"].delegate == 0


@pytest.mark.parametrize("name", ["executorch-xnnpack", "executorch-coreml", SLOW])
def test_the_pieces_are_those_of_the_lowered_program(name):
    exported = _exported(Block())
    assert pieces(partition_map(present(name), exported)) == _delegates_in_the_file(name, exported) > 0


def test_asking_changes_nothing():
    backend, exported = present("executorch-xnnpack"), _exported(Block())
    assert partition_map(backend, exported) == partition_map(backend, exported)
    assert exported.content == _exported(exported.module).content


def test_counts_are_by_operator():
    placements = (
        Placement("a", "conv", "m", 0),
        Placement("b", "norm", "m", None, "no entry"),
        Placement("c", "norm", "m", None, UNKNOWN),
        Placement("d", "norm", "m", None, UNKNOWN),
        Placement("e", "conv", "m", 2),
        Placement("f", "norm", "m", 2),
    )
    assert shares(placements) == (Share("norm", 1, 3, (UNKNOWN, "no entry")), Share("conv", 2, 0, ()))
    assert pieces(placements) == 2
    assert shares(()) == ()
    assert pieces(()) == 0


@pytest.mark.parametrize("name", ["executorch-portable", "onnxruntime"])
def test_a_backend_without_a_delegate_is_refused(name):
    with pytest.raises(InputError, match=f"{name} has no delegate, so there is nothing to map; take executorch-xnnp"):
        partition_map(BACKENDS[name], _exported(Block()))


def test_a_graph_that_cannot_be_prepared_falls_from_lowered():

    with pytest.raises(RungError, match="lowered") as caught:
        partition_map(present("executorch-xnnpack"), _exported(Of(lambda x: x + torch.randn_like(x))))
    assert "randn_like" in str(caught.value.__cause__)
