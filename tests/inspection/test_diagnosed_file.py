"""A file that somebody else exported, diagnosed beside its module."""

import numpy as np
import onnx
import pytest
import torch
from onnx import helper
from torch import nn

from kokoro_nb.backends import backend
from kokoro_nb.backends.exported import export_program
from kokoro_nb.errors import InputError
from kokoro_nb.inspection import diagnose
from tests.backends.small import First, Layers
from tests.corpus import forms
from tests.corpus.onnx_files import with_constant

INPUTS = {"x": torch.randn(1, 4, 24, generator=torch.Generator().manual_seed(0))}


class Net(Layers):
    def __init__(self):
        super().__init__(nn.Conv1d(4, 8, 3, padding=1), nn.Tanh(), nn.Conv1d(8, 2, 3))


@pytest.fixture
def module():
    torch.manual_seed(0)
    return Net().eval()


@pytest.mark.parametrize("maker", ["dynamo_onnx", "legacy_onnx", "float16_onnx", "int8_onnx"])
def test_a_healthy_file_passes_whatever_wrote_it(module, tmp_path, maker):
    file = getattr(forms, maker)(module, INPUTS, tmp_path / "model.onnx")
    found = diagnose(module, INPUTS, "onnxruntime", artefact=file)
    assert (found.verdict, found.culprits, found.output.verdict) == ("pass", (), "pass")


def test_a_file_of_another_runtime_is_refused(module, tmp_path):
    (tmp_path / "model.pte").write_bytes(b"")
    with pytest.raises(InputError, match=r"runs .onnx files; .* or compare it .* by `kokoro-nb inspect .*model.pte"):
        diagnose(module, INPUTS, "onnxruntime", artefact=tmp_path / "model.pte")


def test_a_program_of_executorch_is_diagnosed_beside_its_module(module, tmp_path):
    runtime = backend("executorch-portable")
    made = runtime.export(export_program(module, INPUTS), INPUTS, tmp_path)
    assert diagnose(module, INPUTS, runtime, artefact=made.path).verdict == "pass"
    with torch.no_grad():
        module[2].bias += 1
    found = diagnose(module, INPUTS, runtime, artefact=made.path)
    assert (found.first.tap.name, found.first.mechanism.name) == ("2:conv1d", "changed constant")


def test_a_small_module_is_known_from_another_by_its_small_weights(tmp_path):
    inputs = {"input": torch.ones(2, 3)}
    torch.manual_seed(0)
    mine, other = nn.Linear(3, 4).eval(), nn.Linear(3, 4).eval()
    file = forms.legacy_onnx(other, inputs, tmp_path / "other.onnx")
    with pytest.raises(InputError, match="it has none of the module's values and constants"):
        diagnose(mine, inputs, "onnxruntime", artefact=file)
    own = forms.legacy_onnx(mine, inputs, tmp_path / "own.onnx")
    assert diagnose(mine, inputs, "onnxruntime", artefact=own).verdict == "pass"


class Aligned(nn.Module):
    """Features of phones, each for as many frames as an alignment says."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(9, 4)

    def forward(self, phones, frames):
        return self.table(phones).gather(1, frames[..., None].expand(1, 7, 4)).tanh()


PHONES = {"phones": torch.tensor([[8, 2, 5]]), "frames": torch.tensor([[0, 0, 1, 2, 2, 2, 2]])}


def _normed():
    norm = nn.BatchNorm1d(6)
    norm.running_mean, norm.running_var = torch.linspace(-1, 1, 6), torch.linspace(0.1, 0.6, 6)
    return Layers(nn.Conv1d(4, 6, 3), nn.Tanh(), norm, nn.Conv1d(6, 2, 1))


def _recurrent():
    return First(nn.GRU(24, 5, batch_first=True))


@pytest.mark.parametrize(
    ("make", "name", "setting", "words"),
    [
        (Aligned, "table:embedding", {}, "table:embedding there gives with table.weight in another order"),
        (_normed, "2:_native_batch_norm_legit_no_training", {"epsilon": 0.5}, "eps is 0.5 in place of 1e-05"),
        (_recurrent, "layer:gru", {"linear_before_reset": 0}, "linear_before_reset is 0 in place of 1"),
        (_recurrent, "layer:gru", {"direction": "reverse"}, "direction is reverse in place of forward"),
    ],
)
def test_what_was_edited_in_a_file_is_named_at_the_operator_that_it_belongs_to(tmp_path, make, name, setting, words):
    module, inputs = make().eval(), PHONES if make is Aligned else INPUTS
    file = forms.dynamo_onnx(module, inputs, tmp_path / "model.onnx")
    assert diagnose(module, inputs, "onnxruntime", artefact=file).verdict == "pass"
    if not setting:
        with_constant(file, lambda nodes, held: next(one for one in held if list(held[one].dims) == [9, 4]), np.flipud)
    model = onnx.load(file)
    for node in (one for one in model.graph.node if one.op_type in ("BatchNormalization", "GRU")):
        kept = [one for one in node.attribute if one.name not in setting]
        del node.attribute[:]
        node.attribute.extend([*kept, *(helper.make_attribute(*one) for one in setting.items())])
    onnx.save(model, file)
    found = diagnose(module, inputs, "onnxruntime", artefact=file, remedies=False)
    assert [one.name for one in found.culprits] == [name]
    assert words in str(found.first.mechanism)


class Scaled(Net):
    def __init__(self):
        super().__init__()
        self.register_buffer("rate", torch.full((1, 1, 1), 96000.0))

    def forward(self, x):
        return super().forward(x) / self.rate


def test_what_the_file_itself_says_is_the_mechanism(tmp_path):
    torch.manual_seed(0)
    module = Scaled().eval()
    file = forms.float16_onnx(module, INPUTS, tmp_path / "model.onnx")
    found = diagnose(module, INPUTS, "onnxruntime", artefact=file)
    assert [one.tap.name for one in found.culprits] == [":div"]
    assert found.first.mechanism.name == "changed constant"
    assert "the constant 'rate' is 65,504 in place of 96,000" in str(found.first.mechanism)
    assert found.first.mechanism.defect is None


class Levelled(nn.Module):
    """A scale of its own for each channel after a root mean square over time, which no exporter has an operator for."""

    def __init__(self):
        super().__init__()
        self.first, self.gain = nn.Conv1d(4, 8, 3, padding=1), nn.Parameter(torch.linspace(0.5, 2, 8)[:, None])

    def forward(self, x):
        y = self.first(x)
        return torch.tanh(nn.functional.rms_norm(y, y.shape[-1:]) * self.gain)


def test_where_no_value_of_the_file_is_near_the_operator_is_named_by_where_the_two_part(written):
    torch.manual_seed(0)
    module = Levelled().eval()
    weights = {name: value.detach().numpy() for name, value in module.named_parameters()}
    steps = [("Conv", "x w b", "c", {"pads": [1, 1]}), ("ReduceL2", "c axis", "n")]  # a length, not a mean
    steps += [("Div", "c n", "level"), ("Mul", "level g", "m"), ("Tanh", "m", "y")]
    constants = {"w": weights["first.weight"], "b": weights["first.bias"], "g": weights["gain"], "axis": np.array([-1])}
    file = written("m.onnx", steps, constants, {"x": [1, 4, 24]})
    found = diagnose(module, INPUTS, "onnxruntime", artefact=file)
    assert found.exit_status == 1
    assert found.first.tap.name == ":rms_norm"
    assert found.first.mechanism.name in ("operator lowered as another", "changed scale")
    assert "parts from the module at Div level" in found.statement
