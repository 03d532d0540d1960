import numpy as np
import pytest
import torch
from torch import nn

from kokoro_nb.backends import BACKENDS
from kokoro_nb.backends.exported import content, export_program
from kokoro_nb.backends.segment import output_of, with_outputs
from kokoro_nb.errors import InputError

X = {"x": torch.linspace(-2, 2, 12).reshape(1, 3, 4), "unread": torch.ones(2)}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv1d(3, 3, 3, padding=1)

    def forward(self, x, unread):
        y = torch.sin(self.conv(x))
        return {"audio": torch.exp(y), "large": y > 0, "x": x}


@pytest.fixture(scope="module")
def exported():
    return export_program(Net(), X)


def _captured(exported):
    found = {}
    exported.specification.run(X, lambda name, value: found.update({name: value.numpy().copy()}))
    return found


@pytest.mark.parametrize("name", ["eager", "torchscript", "onnxruntime", "executorch-portable"])
def test_the_results_come_out_beside_the_outputs(name, exported, tmp_path):
    backend = BACKENDS[name]
    if backend.available() is not None:
        pytest.skip(backend.available())
    tapped = with_outputs(exported, ["conv:conv1d", ":sin"])
    assert tapped.inputs == exported.inputs
    outputs = backend.load(backend.export(tapped, X, tmp_path)).run(X)
    assert list(outputs) == ["audio", "large", "x", "conv:conv1d", ":sin"]
    captured = _captured(exported)
    for operator in ("conv:conv1d", ":sin"):
        np.testing.assert_allclose(outputs[operator], captured[operator], atol=1e-6)
    np.testing.assert_allclose(outputs["audio"], captured[":exp"], atol=1e-6)
    np.testing.assert_array_equal(outputs["x"], X["x"])


def test_a_result_that_goes_out_already_is_not_added(exported):
    assert output_of(exported) == {":exp": "audio", ":gt": "large"}
    tapped = with_outputs(exported, [":exp", ":sin", ":sin"])
    assert tapped.outputs == ("audio", "large", "x", ":sin")
    assert output_of(tapped) == {":exp": "audio", ":gt": "large", ":sin": ":sin"}


def test_the_names_hold_and_the_program_stays_as_it_was(exported):
    before = content(exported.specification.program)
    tapped = with_outputs(exported, [":sin"])
    assert tapped.specification.operators == exported.specification.operators
    assert list(_captured(tapped)) == list(_captured(exported))
    assert content(exported.specification.program) == before != content(tapped.program)


def test_an_unknown_operator_and_a_name_that_is_taken_are_refused(exported):
    class Taken(nn.Module):
        output_names = (":sin",)

        def forward(self, x):
            return torch.sin(x).exp()

    with pytest.raises(InputError, match="no operator ':cos'"):
        with_outputs(exported, [":cos"])
    with pytest.raises(InputError, match="has an output called ':sin'"):
        with_outputs(export_program(Taken(), {"x": torch.ones(2)}), [":sin"])
