"""ExecuTorch: what is built for other systems, what goes to a delegate and why, and what its traces show."""

import json
import logging
from functools import cache

import numpy as np
import pytest
import torch
from torch import nn

from kokoro_nb.backends import BACKENDS
from kokoro_nb.backends.executorch import DELEGATES
from kokoro_nb.backends.executorch.partition import Placement, Share, Withholding, partition_map, pieces, shares
from kokoro_nb.backends.executorch.tracing import ROOM
from kokoro_nb.backends.exported import content, export_program
from kokoro_nb.errors import InputError
from tests.backends.small import Layers, Of, present, results, taking
from tests.refusals import refused

X = {"x": torch.linspace(-1, 1, 32).reshape(1, 4, 8)}
SLOW = pytest.param("executorch-vulkan", marks=pytest.mark.slow)
# two convolutions with the norm of Kokoro's blocks between them
BLOCK = Layers(nn.Conv1d(4, 4, 3), nn.ReLU(), nn.InstanceNorm1d(4, affine=True), nn.Conv1d(4, 4, 3), nn.ReLU())
NORM, CONV = "aten._native_batch_norm_legit.no_stats", "aten.convolution.default"


def _delegates_in_the_file(name, exported):
    """Lower for good, and count the calls of the delegate."""
    from executorch.exir import to_edge_transform_and_lower

    edge = to_edge_transform_and_lower(exported.program, partitioner=[present(name).partitioner(exported)])
    return sum("call_delegate" in str(node.target) for node in edge.exported_program().graph.nodes)


def test_an_instance_norm_stays_outside_xnnpack_and_cuts_the_graph_in_two():
    found = partition_map(present("executorch-xnnpack"), export_program(BLOCK, X))
    (norm,) = (placement for placement in found if placement.operator == NORM)
    assert norm == Placement(norm.name, NORM, "2", None, "XNNPACK's partitioner has no entry for the operator")
    convolutions = [placement for placement in found if placement.operator == CONV]
    assert [(conv.module, conv.delegate, conv.reason) for conv in convolutions] == [("0", 0, ""), ("3", 1, "")]
    assert pieces(found) == 2
    assert "getitem" not in {placement.operator for placement in found}


def test_what_is_taken_and_what_is_left_is_counted_by_operator():
    why, other = "its weight is no constant", "aten.tanh.default"
    placed = [Placement("a", other, "", 1), Placement("b", CONV, "", 0), Placement("c", CONV, "", None, why)]
    assert shares(placed) == (Share(CONV, 1, 1, (why,)), Share(other, 1, 0, ()))


def test_vulkan_and_core_ml_say_why():
    odd = taking(lambda x, i: (torch.asinh(x), torch.abs(i)))
    exported = export_program(odd, {**X, "i": torch.arange(4)})
    vulkan = {found.operator: found for found in partition_map(present("executorch-vulkan"), exported)}
    assert vulkan["aten.asinh.default"].reason == "no operator implementation"
    assert vulkan["aten.abs.default"].reason.startswith("input[0] dtype torch.int64 not in {")
    coreml = {found.operator: found for found in partition_map(present("executorch-coreml"), exported)}
    assert "is not supported by CoreML" in coreml["aten.asinh.default"].reason
    assert coreml["aten.abs.default"].delegate == 0


@pytest.mark.parametrize("name", ["executorch-xnnpack", "executorch-coreml", SLOW])
def test_the_pieces_are_those_of_the_lowered_program(name):
    exported = export_program(BLOCK, X)
    assert pieces(partition_map(present(name), exported)) == _delegates_in_the_file(name, exported) > 0


def test_a_backend_without_a_delegate_is_refused():
    with pytest.raises(InputError, match="onnxruntime has no delegate, so there is nothing to map; take executorch-x"):
        partition_map(BACKENDS["onnxruntime"], export_program(BLOCK, X))


def test_core_ml_is_reported_float32():
    partitioner = present("executorch-coreml").partitioner(export_program(BLOCK, X))
    told = {spec.key: spec.value for spec in partitioner.delegation_spec.compile_specs}
    assert told["model_compute_precision"] == b"float32"


def test_importing_vulkan_s_partitioner_leaves_the_log_level_alone():
    level = logging.root.level
    present("executorch-vulkan").partitioner(export_program(BLOCK, X))
    assert logging.root.level == level


SIGNAL = {"x": torch.linspace(-5, 5, 1000).reshape(1, 10, 100)}


@pytest.mark.parametrize("name", ["executorch-coreml", "executorch-vulkan", "executorch-xnnpack"])
def test_the_exported_program_keeps_its_constants_and_what_another_system_runs_is_not_executed_here(name, tmp_path):
    backend = present(name)
    lifted = Of(lambda x: x * torch.tensor(5 * [[2.0], [3.0]]) + torch.where(x > 0, torch.tensor(1.0), x))
    exported = export_program(Layers(nn.Conv1d(10, 10, 3), nn.InstanceNorm1d(10), nn.GELU(), lifted), SIGNAL)
    before = content(exported.program)
    made = backend.export(exported, SIGNAL, tmp_path)
    assert content(exported.program) == before
    assert exported.program.run_decompositions({}).constants.keys() == exported.program.constants.keys()
    backend_id = DELEGATES[backend.delegate].backend_id
    assert backend_id.encode() in made.path.read_bytes()
    if name != "executorch-xnnpack":
        assert backend.executes() == f"The runtime in this ExecuTorch was built without {backend_id}."
        refused(f"built without {backend_id}", backend.load, made)


DRAWN = {"x": torch.randn(1, 4, 8, generator=torch.Generator().manual_seed(0))}


class Net(nn.Module):
    """Several results of one operator, a norm of three results, views, integers and truth values."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.norm = nn.Conv1d(4, 4, 3, padding=1), nn.InstanceNorm1d(4)

    def forward(self, x):
        first, second = torch.split(self.norm(self.conv(x)), 2, 1)
        y = torch.exp(first) + torch.sin(second)
        y = y.transpose(1, 2) * 2
        places = (y > 1).long().cumsum(1)
        return y.contiguous().view(1, 4, 4).std(1) * 2, places


@pytest.fixture(scope="module")
def exported():
    return export_program(Net(), DRAWN)


@pytest.fixture(scope="module")
def traced(exported, tmp_path_factory):
    """Return a function: the program as a backend loads it, and a full trace of it."""
    folder = tmp_path_factory.mktemp("artefacts")

    @cache
    def get(name):
        backend = present(name)
        program = backend.load(backend.export(exported, DRAWN, folder))
        return program, program.trace(DRAWN, keep="full")

    return get


def _assert_right(trace, exported):
    expected = results(exported, DRAWN)
    for name, value in trace.values.items():
        assert value.dtype == expected[name].dtype
        np.testing.assert_allclose(value, expected[name], atol=2e-5)  # peak 18, unit in the last place 2e-6
    assert set(trace.values) | set(trace.missing) == set(expected)


def test_without_a_delegate_every_operator_is_captured(traced, exported):
    _, trace = traced("executorch-portable")
    assert trace.missing == ()
    _assert_right(trace, exported)
    assert {tap.operator.dtype for tap in trace.taps} == {"float32", "bool", "int64"}
    assert trace[":split#2"].op == "aten.split.Tensor[1]"


def test_what_is_inside_a_delegate_is_missing_and_what_it_hands_out_is_not(traced, exported):
    _, trace = traced("executorch-xnnpack")
    _assert_right(trace, exported)
    # the variance is computed outside the delegate and its root inside: both have the shape of the deviation
    assert {"conv:conv1d", ":exp", ":sin", ":add", ":std"} <= set(trace.missing)
    assert {"norm:instance_norm", ":split", ":split#2", ":cumsum", ":mul#2"} <= set(trace.values)


def test_only_xnnpack_can_be_withheld_from_and_what_is_withheld_is_part_of_the_key():
    refused("From 'coreml' nothing can be withheld", Withholding, "x", delegate="coreml")
    keys = {str(Withholding("x", withheld=names).options()) for names in ((), ("a",), ("a", "b"), ("b", "a"))}
    assert len(keys) == 3


def test_too_small_a_buffer_is_reported_and_does_no_harm(exported, tmp_path):
    backend = present("executorch-portable")
    program = backend.load(backend.export(exported, DRAWN, tmp_path))
    note = program.artifact.folder / ROOM
    size = json.loads(note.read_text())["bytes"]
    note.write_text(json.dumps({"bytes": size // 4}))
    with pytest.raises(RuntimeError, match=r"perhaps because its buffer of \d+ bytes is too small"):
        program.trace(DRAWN)
    assert program.run(DRAWN)["output_0"].shape == (1, 4)
