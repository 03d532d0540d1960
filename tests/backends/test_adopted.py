"""A file that somebody else exported: which of its values hold the results of the module's operators."""

from types import SimpleNamespace

import numpy as np
import onnx
import pytest
import torch
from onnx import helper, numpy_helper
from torch import nn

from kokoro_nb.backends import backend
from kokoro_nb.backends.adopted import adopted, of_same_inputs
from kokoro_nb.backends.exported import export_program
from kokoro_nb.errors import InputError
from kokoro_nb.inspection import diagnose
from kokoro_nb.traces.operators import Operator
from tests.backends.small import Of
from tests.corpus import forms

INPUTS = {"x": torch.randn(1, 4, 24, generator=torch.Generator().manual_seed(0))}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Conv1d(4, 8, 3, padding=1), nn.Conv1d(8, 2, 3)

    def forward(self, x):
        return self.last(torch.tanh(self.first(x)))


@pytest.fixture
def module():
    torch.manual_seed(0)
    return Net().eval()


@pytest.mark.parametrize("maker", ["dynamo_onnx", "legacy_onnx", "float16_onnx", "int8_onnx"])
def test_every_operator_is_found_whatever_wrote_the_file(module, tmp_path, maker):
    file = getattr(forms, maker)(module, INPUTS, tmp_path / "model.onnx")
    runtime, exported = backend("onnxruntime"), export_program(module, INPUTS)
    artefact = adopted(runtime, exported, file, INPUTS, tmp_path / "artefacts")
    trace = runtime.load(artefact).trace(INPUTS, keep="full")
    assert trace.missing == ()
    with torch.no_grad():
        expected = torch.tanh(module.first(INPUTS["x"])).numpy()
    limit = {"int8_onnx": 0.05, "float16_onnx": 2e-3}.get(maker, 1e-6)
    assert np.max(np.abs(trace.values[":tanh"] - expected)) < limit


def test_a_file_of_another_runtime_is_refused(module, tmp_path):
    (tmp_path / "model.pte").write_bytes(b"")
    with pytest.raises(InputError, match="leave the file out and diagnose the module on executorch-xnnpack"):
        adopted(backend("onnxruntime"), export_program(module, INPUTS), tmp_path / "model.pte", INPUTS)


def test_a_small_module_is_reported_from_another_by_its_small_weights(tmp_path):
    inputs = {"input": torch.ones(2, 3)}
    torch.manual_seed(0)
    mine, other = nn.Linear(3, 4).eval(), nn.Linear(3, 4).eval()
    runtime, exported = backend("onnxruntime"), export_program(mine, inputs)
    file = forms.legacy_onnx(other, inputs, tmp_path / "other.onnx")
    with pytest.raises(InputError, match="0 of the module's 2 larger weights"):
        adopted(runtime, exported, file, inputs, tmp_path / "artefacts")
    assert not (tmp_path / "artefacts").exists()
    own = forms.legacy_onnx(mine, inputs, tmp_path / "own.onnx")
    assert adopted(runtime, exported, own, inputs, tmp_path / "artefacts").folder.exists()


class Scaled(Net):
    def __init__(self):
        super().__init__()
        self.register_buffer("rate", torch.full((1, 1, 1), 96000.0))

    def forward(self, x):
        return super().forward(x) / self.rate


@pytest.mark.parametrize(
    ("maker", "mechanism", "text"),
    [
        ("float16_onnx", "changed constant", "rate is 96000 in the module and 65504 in the file"),
        ("int8_onnx", "quantisation range", "the file computes it by ConvInteger, DynamicQuantizeLinear"),
    ],
)
def test_what_the_file_itself_says_is_the_mechanism(tmp_path, maker, mechanism, text):
    torch.manual_seed(0)
    module = Scaled().eval()
    file = getattr(forms, maker)(module, INPUTS, tmp_path / "model.onnx")
    found = diagnose(module, INPUTS, "onnxruntime", artefact=file, folder=tmp_path / "artefacts")
    named = {one.tap.name: one.mechanism for one in found.culprits}
    wrong = ":div" if maker == "float16_onnx" else "first:conv1d"
    assert named[wrong].name == mechanism
    assert text in named[wrong].evidence
    assert maker != "float16_onnx" or [*named] == [":div"]


# the sum over an axis, by its length: a number that tracing takes from the example
AVERAGED = Of(lambda x: torch.sigmoid(torch.tanh(x).sum(1) / float(x.shape[1])))


def test_an_operator_that_is_wrong_on_any_inputs_is_found_by_what_it_reads(tmp_path):
    inputs = {"x": torch.linspace(0.1, 2, 48).reshape(1, 12, 4)}
    file = forms.frozen_onnx(AVERAGED, inputs, tmp_path / "model.onnx")
    found = diagnose(AVERAGED, inputs, "onnxruntime", artefact=file, folder=tmp_path / "artefacts")
    assert [one.tap.name for one in found.culprits] == [":div"]
    assert found.culprits[0].mechanism.name == "frozen length"


def _node(kind, reads, gives):
    return SimpleNamespace(op_type=kind, input=reads, output=[gives])


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ([_node("Div", ["t", "c"], "u")], {":div": "u", ":mul": "v"}),
        ([_node("Div", ["t", "c"], "u"), _node("Div", ["t", "d"], "w")], {}),  # either may be it
        ([_node("Div", ["q", "c"], "u")], {}),  # reads something else
        ([_node("Div", ["t", "c"], "flat")], {}),  # of another shape
        ([_node("Mul", ["t", "c"], "u")], {}),  # of another kind
        ([_node("Div", ["t", "c"], "t")], {}),  # has its operator
    ],
)
def test_the_one_node_of_the_kind_that_reads_the_same_is_it(nodes, expected):
    wide = np.zeros((2, 3))
    values = {"t": wide, "u": wide, "w": wide, "v": wide, "flat": np.zeros(6)}
    operators = [
        Operator(":div", "aten.div.Tensor", "", (":sum",), (2, 3), "float32"),
        Operator(":mul", "aten.mul.Tensor", "", (":div",), (2, 3), "float32"),
    ]
    nodes = [*nodes, _node("Mul", ["u", "c"], "v")]
    assert of_same_inputs(operators, nodes, {":sum": "t"}, values) == expected


class Levelled(nn.Module):
    """A scale of its own for each channel after a root mean square over time, which no exporter has an operator for."""

    def __init__(self):
        super().__init__()
        self.first, self.gain = nn.Conv1d(4, 8, 3, padding=1), nn.Parameter(torch.linspace(0.5, 2, 8)[:, None])

    def forward(self, x):
        y = self.first(x)
        return torch.tanh(nn.functional.rms_norm(y, y.shape[-1:]) * self.gain)


def test_where_no_value_of_the_file_is_near_the_operator_is_named_by_where_the_two_part(tmp_path):
    torch.manual_seed(0)
    module = Levelled().eval()
    weights = {name: value.detach().numpy() for name, value in module.named_parameters()}
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], name="/conv", pads=[1, 1]),
        helper.make_node("ReduceL2", ["c", "axis"], ["n"], name="/length", keepdims=1),  # a length, not a mean
        helper.make_node("Div", ["c", "n"], ["d"], name="/level"),
        helper.make_node("Mul", ["d", "g"], ["m"], name="/gain"),
        helper.make_node("Tanh", ["m"], ["y"], name="/tanh"),
    ]
    constants = {"w": weights["first.weight"], "b": weights["first.bias"], "g": weights["gain"], "axis": np.array([-1])}
    ends = [helper.make_tensor_value_info(name, 1, shape) for name, shape in (("x", [1, 4, 24]), ("y", [1, 8, 24]))]
    held = [numpy_helper.from_array(one, name) for name, one in constants.items()]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], held)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), tmp_path / "m.onnx")
    found = diagnose(module, INPUTS, "onnxruntime", artefact=tmp_path / "m.onnx", folder=tmp_path / "artefacts")
    assert found.exit_status == 1
    assert found.first.tap.name == ":rms_norm"
    assert found.first.mechanism.name in ("operator lowered as another", "changed scale")
    assert "parts from the module Levelled" in found.statement
