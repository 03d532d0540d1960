"""The backend: graph, prediction on macOS with a stand-in for Core ML, and its absence."""

import json
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from kokoro_nb.backends.coreml import CoreMlProgram
from kokoro_nb.backends.coreml.conversion import MixedPrecision
from kokoro_nb.errors import InputError
from tests.backends.small import Of

X = {"x": torch.linspace(-1, 1, 12).reshape(1, 3, 4)}


SINE = Of(lambda x: torch.sin(x))


class Names(torch.nn.Module):
    def forward(self, list, step, mask, ids):
        return {"list": list + step, "x.y": mask.logical_not(), "n": ids + 1}


INPUTS = {"list": torch.ones(2, 3), "step": torch.tensor(2.0)}
INPUTS |= {"mask": torch.tensor([True, False]), "ids": torch.tensor([1, -5])}
EXPECTED = {"list": np.full((2, 3), 3, "float32"), "x.y": np.array([False, True]), "n": np.array([2, -4], "int32")}


class Model:
    """Stands in for `coremltools.models.MLModel` where there is no Core ML."""

    def __init__(self, path):
        import coremltools as ct

        self.spec = ct.utils.load_spec(path)

    def get_spec(self):
        return self.spec

    def predict(self, inputs):
        x, step, mask, ids = (inputs[feature.name] for feature in self.spec.description.input)
        assert [one.shape for one in (x, step, mask, ids)] == [(2, 3), (1,), (2,), (2,)]
        assert [one.dtype.name for one in (x, step, mask, ids)] == ["float32"] * 3 + ["int32"]
        names = [feature.name for feature in self.spec.description.output]
        return dict(zip(names, (x + step, 1 - mask, ids + 1), strict=True))


def test_on_macos_the_file_is_loaded_and_predicts_under_our_names(coreml, tmp_path, monkeypatch):
    made = coreml.export(Names(), INPUTS, tmp_path)
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr("coremltools.models.MLModel", Model)
    assert coreml.executes() is None
    program = coreml.load(made)
    assert isinstance(program, CoreMlProgram)
    results = program.run(INPUTS)
    assert list(results) == list(EXPECTED)
    for name, value in EXPECTED.items():
        np.testing.assert_array_equal(results[name], value)


def test_elsewhere_loading_says_where_it_would_run(coreml, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "platform", "linux")
    assert "macOS only" in coreml.executes()
    with pytest.raises(InputError, match="coreml-reference runs the same file on any machine"):
        coreml.load(coreml.export(SINE, X, tmp_path))


def test_without_coremltools_it_says_so_and_the_export_is_a_record(coreml, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "coremltools", None)  # importing it now raises ImportError
    assert "cannot be used here" in coreml.available()
    failure = coreml.export(SINE, X, tmp_path)
    assert (failure.rung, failure.error) == ("lowered", "ModuleNotFoundError")


def test_what_it_is_told_stands_in_the_record(coreml, tmp_path):
    for precision in (None, "float32", MixedPrecision(("sin",))):
        made = replace(coreml, precision=precision, core_operators=True).export(SINE, X, tmp_path)
        about = json.loads((made.folder / "meta.json").read_text())["options"]
        kept = {"keep": ["sin"]} if precision not in (None, "float32") else precision
        assert about == {"route": "export", "precision": kept, "target": None, "core_operators": True}
