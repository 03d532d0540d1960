import numpy as np
import onnx
import pytest
import torch
from torch import nn

from kokoro_nb.backends.base import Failure
from kokoro_nb.backends.qnn.assignment import legacy_onnx
from kokoro_nb.errors import InputError
from tests.backends.small import Layers, Of

X = {"x": torch.linspace(-1, 1, 12).reshape(1, 3, 4)}


class Branching(nn.Module):
    """What `torch.export` refuses and tracing takes, with the branch that the example took."""

    def forward(self, x, y):
        return x - y if x.sum() > y.sum() else x + y


def test_a_module_is_traced_to_a_file_that_computes_the_same(tmp_path):
    from onnx.reference import ReferenceEvaluator

    inputs = {"y": X["x"] * 2 + 1, "x": X["x"]}  # the order of the forward counts, not this one
    path = legacy_onnx(Branching(), inputs, tmp_path / "m.onnx")
    graph = onnx.load(path).graph
    assert [value.name for value in graph.input] == ["x", "y"]
    (result,) = ReferenceEvaluator(str(path)).run(None, {name: tensor.numpy() for name, tensor in inputs.items()})
    np.testing.assert_array_equal(result, (inputs["x"] + inputs["y"]).numpy())


def test_names_of_nodes_carry_the_module_which_stays_as_it_was(tmp_path):
    module = Layers(nn.Sequential(nn.Conv1d(3, 2, 1))).train()
    path = legacy_onnx(module, X, tmp_path / "m.onnx")
    assert "/0/0.0/Conv" in {node.name for node in onnx.load(path).graph.node}
    assert module.training
    assert all(weight.requires_grad for weight in module.parameters())


def test_what_the_tracer_cannot_write_is_a_failure_with_the_exact_error(tmp_path, capfd):

    failure = legacy_onnx(Of(lambda x: (x * 1j).abs()), X, tmp_path / "m.onnx")
    assert isinstance(failure, Failure)
    assert (failure.backend, failure.rung, failure.error) == ("torch.onnx", "lowered", "RuntimeError")
    assert failure.message == "Unknown number type: complex"
    assert "aten::abs" in failure.log
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize(
    ("inputs", "where", "sentence"),
    [({}, "m.onnx", "Input 'x' is missing"), ({**X, "y": X["x"]}, "no/m.onnx", "There is no folder")],
)
def test_bad_input_is_refused(inputs, where, sentence, tmp_path):
    with pytest.raises(InputError, match=sentence):
        legacy_onnx(Branching(), inputs, tmp_path / where)
