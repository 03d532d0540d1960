"""The backend: graph, prediction on macOS with a stand-in for Core ML, and its absence."""

import sys

import numpy as np
import pytest
import torch

from kokoro_nb.backends.coreml import CoreMlProgram
from kokoro_nb.backends.exported import export_program
from kokoro_nb.errors import InputError

X = {"x": torch.linspace(-1, 1, 12).reshape(1, 3, 4)}


class Sine(torch.nn.Module):
    def forward(self, x):
        return torch.sin(x)


def test_the_graph_carries_every_name_and_dtype(coreml, names):
    module, inputs, expected = names
    graph = coreml.graph(export_program(module, inputs))
    results = graph.run(inputs)
    assert list(results) == list(expected)
    for name, value in expected.items():
        assert results[name].dtype == value.dtype
        np.testing.assert_array_equal(results[name], value)
    with pytest.raises(InputError, match="'mask' is missing"):
        graph.run({name: inputs[name] for name in ("list", "step", "ids")})
    with pytest.raises(InputError, match="beyond its range"):
        graph.run({**inputs, "ids": torch.tensor([4, 2**40])})


class Model:
    """Stands in for `coremltools.models.MLModel` where there is no Core ML."""

    def __init__(self, path):
        import coremltools as ct

        self.spec = ct.utils.load_spec(path)

    def get_spec(self):
        return self.spec

    def predict(self, inputs):
        assert {name: (value.dtype.name, value.shape) for name, value in inputs.items()} == {
            "list_workaround": ("float32", (2, 3)),
            "step": ("float32", (1,)),
            "mask": ("float32", (2,)),
            "ids": ("int32", (2,)),
        }
        return {
            "list_out": inputs["list_workaround"] + inputs["step"],
            "x_y": 1 - inputs["mask"],
            "x_y_out": inputs["ids"] + 1,
            "output_0": inputs["step"],
            "_": inputs["list_workaround"].sum(keepdims=True).reshape(1),
        }


def test_on_macos_the_file_is_loaded_and_predicts_under_our_names(coreml, names, tmp_path, monkeypatch):
    module, inputs, expected = names
    made = coreml.export(module, inputs, tmp_path)
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr("coremltools.models.MLModel", Model)
    assert coreml.executes() is None
    program = coreml.load(made)
    assert isinstance(program, CoreMlProgram)
    results = program.run(inputs)
    assert list(results) == list(expected)
    for name, value in expected.items():
        assert results[name].dtype == value.dtype
        np.testing.assert_array_equal(results[name], value)
    with pytest.raises(InputError, match="holds integers between"):
        program.run({**inputs, "ids": torch.tensor([2**40, 0])})


def test_elsewhere_loading_says_where_it_would_run(coreml, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "platform", "linux")
    assert "macOS only" in coreml.executes()
    with pytest.raises(InputError, match="coreml-reference runs the same file on any machine"):
        coreml.load(coreml.export(Sine(), X, tmp_path))


def test_without_coremltools_it_says_so_and_the_export_is_a_record(coreml, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "coremltools", None)  # importing it now raises ImportError
    assert "cannot be used here" in coreml.available()
    failure = coreml.export(Sine(), X, tmp_path)
    assert (failure.rung, failure.error) == ("lowered", "ModuleNotFoundError")
