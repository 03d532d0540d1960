"""Parts of a program, results as further outputs, and where a program can be cut."""

import numpy as np
import pytest
import torch
from torch import nn

from kokoro_nb.backends.exported import export_program
from kokoro_nb.backends.segment import Cuts, output_of, part, result_nodes, with_outputs
from tests.backends.small import Of, present, results
from tests.refusals import refused

X = {"x": torch.randn(1, 4, 8, generator=torch.Generator().manual_seed(0)), "z": torch.ones(1, 4)}


class Net(nn.Module):
    """Parameters, a buffer, a lifted constant, several results of one operator, and values turned in memory."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.lin = nn.Conv1d(4, 4, 3, padding=1), nn.Linear(4, 4)
        self.register_buffer("scale", torch.tensor(2.0))

    def forward(self, x, z):
        first, second = torch.split(self.conv(x), 2, 1)
        y = torch.exp(first) + second * self.scale
        y = y.transpose(1, 2).relu() * torch.tensor([1.0, 2.0])
        y = y.transpose(1, 2).view(1, 4, -1)  # possible only because the memory lies as it does
        return {"mean": y.mean(1) + self.lin(z), "y": y}


@pytest.fixture(scope="module")
def exported():
    return export_program(Net(), X)


@pytest.fixture(scope="module")
def captured(exported):
    """Every operator's result in the whole."""
    return results(exported, X)


def test_a_part_computes_what_the_whole_computes_there(exported, captured):
    made = part(exported, ["conv:conv1d"], [":relu", ":exp"])
    assert list(made.fed.values()) == ["conv:conv1d"]
    assert [str(spec) for spec in made.exported.inputs] == ["fed_conv1d: float32[1, 4, 8]"]
    results = made.taken(made.exported.specification.run(made.inputs(X, captured)))
    assert list(results) == [":relu", ":exp"]
    for name, value in results.items():
        np.testing.assert_array_equal(value, captured[name])
    # what is fed decides, not what the whole computed: twice the convolution gives another exponential
    twice = made.taken(made.exported.specification.run(made.inputs(X, {"conv:conv1d": 2 * captured["conv:conv1d"]})))
    np.testing.assert_allclose(twice[":exp"], captured[":exp"] ** 2, rtol=1e-6)


def test_a_part_holds_what_it_needs_and_nothing_else(exported):
    made = part(exported, [":add", "lin:linear"], [":mean", ":add#2"])
    assert set(made.exported.program.state_dict) == set()
    assert list(made.exported.program.constants) == ["lifted_tensor_0"]
    assert set(part(exported, [], ["conv:conv1d"]).exported.program.state_dict) == {"conv.weight", "conv.bias"}
    assert [spec.name for spec in part(exported, [], ["lin:linear"]).exported.inputs] == ["z"]


def test_a_value_that_lies_turned_in_memory_lies_so_in_the_part(exported, captured):
    made = part(exported, [":relu"], [":mul#2", ":view"])
    assert made.turned == {"fed_relu": (0, 2, 1)}
    fed = made.inputs(X, captured)["fed_relu"]
    assert fed.shape == (1, 2, 8)
    assert fed.flags.c_contiguous
    turned = next(node for node in made.exported.program.graph.nodes if node.name == "fed_relu_turned")
    assert turned.meta["val"].stride() == result_nodes(exported)[":relu"].meta["val"].stride() == (16, 1, 8)
    for name, value in made.taken(made.exported.specification.run({"fed_relu": fed})).items():
        np.testing.assert_array_equal(value, captured[name])
    with pytest.raises(RuntimeError, match="view size is not compatible"):  # what would become of it otherwise
        torch.tensor(np.ascontiguousarray(captured[":relu"])).transpose(1, 2).view(1, 4, -1)


def test_what_is_not_in_the_program_is_refused(exported):
    refused("no operator ':sine'", part, exported, [], [":sine"])
    refused("no operator ':sine'", part, exported, [":sine"], [":exp"])
    refused("at least one operator", part, exported, [":exp"], [])


FORKED = {"x": torch.linspace(-2, 2, 12).reshape(1, 3, 4), "unread": torch.ones(2)}


class Forked(nn.Module):
    """An input that is not read, and one that is an output."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv1d(3, 3, 3, padding=1)

    def forward(self, x, unread):
        y = torch.sin(self.conv(x))
        return {"audio": torch.exp(y), "large": y > 0, "x": x}


@pytest.fixture(scope="module")
def forked():
    return export_program(Forked(), FORKED)


@pytest.mark.parametrize("name", ["eager", "onnxruntime"])
def test_the_results_come_out_beside_the_outputs(name, forked, tmp_path):
    backend = present(name)
    tapped = with_outputs(forked, ["conv:conv1d", ":sin"])
    assert tapped.inputs == forked.inputs
    outputs = backend.load(backend.export(tapped, FORKED, tmp_path)).run(FORKED)
    assert list(outputs) == ["audio", "large", "x", "conv:conv1d", ":sin"]
    captured = results(forked, FORKED)
    for operator in ("conv:conv1d", ":sin"):
        np.testing.assert_allclose(outputs[operator], captured[operator], atol=1e-6)
    np.testing.assert_allclose(outputs["audio"], captured[":exp"], atol=1e-6)
    np.testing.assert_array_equal(outputs["x"], FORKED["x"])


def test_a_result_that_goes_out_already_is_not_added(forked):
    assert output_of(forked) == {":exp": "audio", ":gt": "large"}
    tapped = with_outputs(forked, [":exp", ":sin", ":sin"])
    assert tapped.outputs == ("audio", "large", "x", ":sin")
    assert output_of(tapped) == {":exp": "audio", ":gt": "large", ":sin": ":sin"}


def test_an_unknown_operator_and_a_name_that_is_taken_are_refused(forked):
    taken = Of(lambda x: torch.sin(x).exp())
    taken.output_names = (":sin",)
    refused("no operator ':cos'", with_outputs, forked, [":cos"])
    refused("has an output called ':sin'", with_outputs, export_program(taken, {"x": torch.ones(2)}), [":sin"])


def _net(x):
    low, high = torch.split(torch.exp(x), 2, 1)
    y = torch.sin(low).transpose(1, 2) + high.transpose(1, 2)
    return y.relu(), torch.exp(x).topk(2).values.neg()


def test_views_and_elements_stay_with_what_they_show():
    cuts = Cuts(export_program(Of(_net), {"x": torch.ones(1, 4, 8)}))
    units = [cuts.names(unit, unit + 1) for unit in range(len(cuts))]
    assert units == [
        (":exp", ":split", ":split#2"),
        (":sin", ":transpose", ":transpose#2"),
        (":add",),
        (":relu",),
        (":exp#2",),
        (":topk",),  # the tuple that it is taken from is no result: nothing is cut in between
        (":neg",),
    ]
    assert cuts.names(0, len(cuts)) == tuple(name for unit in units for name in unit)
