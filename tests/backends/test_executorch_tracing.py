import json

import numpy as np
import pytest
import torch
from torch import nn

from kokoro_nb.backends.executorch.partition import Withholding
from kokoro_nb.backends.executorch.tracing import ROOM
from kokoro_nb.backends.exported import export_program
from kokoro_nb.errors import InputError
from tests.backends.small import present

X = {"x": torch.randn(1, 4, 8, generator=torch.Generator().manual_seed(0))}


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
    return export_program(Net(), X)


@pytest.fixture(scope="module")
def expected(exported):
    found = {}
    exported.specification.run(X, lambda name, value: found.update({name: value.numpy().copy()}))
    return found


@pytest.fixture(scope="module")
def traced(exported, tmp_path_factory):
    """Return a function: the program as a backend loads it, and a full trace of it."""
    folder, known = tmp_path_factory.mktemp("artefacts"), {}

    def get(name):
        backend = present(name)
        if name not in known:
            program = backend.load(backend.export(exported, X, folder))
            known[name] = program, program.trace(X, keep="full")
        return known[name]

    return get


def _assert_right(trace, expected):
    for name, value in trace.values.items():
        assert value.dtype == expected[name].dtype
        np.testing.assert_allclose(value, expected[name], atol=2e-5)  # peak 18, unit in the last place 2e-6
    assert set(trace.values) | set(trace.missing) == set(expected)


def test_without_a_delegate_every_operator_is_captured(traced, expected):
    _, trace = traced("executorch-portable")
    assert trace.missing == ()
    _assert_right(trace, expected)
    kinds = {tap.operator.dtype for tap in trace.taps}
    assert kinds == {"float32", "bool", "int64"}
    assert trace[":split#2"].op == "aten.split.Tensor[1]"


def test_what_is_inside_a_delegate_is_missing_and_what_it_hands_out_is_not(traced, expected):
    _, trace = traced("executorch-xnnpack")
    _assert_right(trace, expected)
    assert {"conv:conv1d", ":exp", ":sin", ":add"} <= set(trace.missing)
    assert {"norm:instance_norm", ":split", ":split#2", ":cumsum", ":mul#2"} <= set(trace.values)


def test_what_is_withheld_from_the_delegate_runs_outside_it(exported, expected, tmp_path):
    withheld = (":exp", "conv:conv1d")
    backend = Withholding(present("executorch-xnnpack").name, withheld=withheld)
    trace = backend.load(backend.export(exported, X, tmp_path)).trace(X, keep="full")
    assert set(withheld) <= set(trace.values)
    assert {":sin", ":add"} <= set(trace.missing)
    _assert_right(trace, expected)


def test_only_xnnpack_can_be_withheld_from_and_what_is_withheld_is_part_of_the_key():
    with pytest.raises(InputError, match="From 'coreml' nothing can be withheld"):
        Withholding("x", delegate="coreml")
    keys = {str(Withholding("x", withheld=names).options()) for names in ((), ("a",), ("a", "b"), ("b", "a"))}
    assert len(keys) == 3


def test_a_step_on_the_way_to_a_result_is_not_taken_for_it(traced):
    # The variance is computed outside the delegate and its root inside: both have the shape of the deviation.
    _, trace = traced("executorch-xnnpack")
    assert ":std" in trace.missing


def test_non_finite_values_come_through(traced):
    program, _ = traced("executorch-portable")
    x = X["x"].clone()
    x[0, 0, 0] = float("nan")
    statistics = program.trace({"x": x})["conv:conv1d"].statistics
    assert statistics.nan == 8  # four channels at two positions
    assert statistics.channels_partly == (0, 1, 2, 3)


def test_too_small_a_buffer_is_reported_and_does_no_harm(exported, tmp_path):
    backend = present("executorch-portable")
    program = backend.load(backend.export(exported, X, tmp_path))
    note = program.path.with_name(ROOM)
    size = json.loads(note.read_text())["bytes"]
    note.write_text(json.dumps({"bytes": size // 4}))
    with pytest.raises(RuntimeError, match=r"perhaps because its buffer of \d+ bytes is too small"):
        program.trace(X)
    assert program.run(X)["output_0"].shape == (1, 4)
