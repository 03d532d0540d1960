"""The ladder with a figure on each rung."""

import numpy as np
import pytest
import torch
from torch import nn

from kokoro_nb.backends import BACKENDS
from kokoro_nb.backends.base import Failure
from kokoro_nb.models.kokoro import load_model
from kokoro_nb.studies.more_backends import rungs
from kokoro_nb.studies.more_backends.rungs import (
    ARTEFACT,
    EAGER,
    EXPORTED,
    GRAPH,
    PATCHED,
    RUNGS,
    Ladder,
    Rung,
    ladders,
)
from kokoro_nb.traces.parity import compare

X = {"x": torch.linspace(-1, 1, 12).reshape(1, 3, 4)}


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv1d(3, 2, 3)

    def forward(self, x):
        return self.conv(x)


@pytest.fixture(scope="module")
def kokoro():
    return load_model("narrow")


def _small(_model):
    return Small()


def test_every_rung_of_a_right_export_is_within_rounding(kokoro, tmp_path):
    (ladder,) = ladders(kokoro.model, _small, X, (), ["onnxruntime"], tmp_path)
    assert tuple(rung.name for rung in ladder.rungs) == RUNGS
    assert ladder.form == "ONNX"
    for rung in ladder.rungs:
        assert rung.parity.finite == 1
        assert 0 < rung.parity.of_peak < 1e-6  # float32 against float64
    assert ladder.first_wrong(1e-6) is None
    assert ladder.as_dict()["artefact on its runtime (% finite)"] == 100


class _Wrong:
    """A runtime whose artefact, or whose graph, computes something else."""

    name, form = "wrong", "Graph"

    def __init__(self, where):
        self.where = where
        self.real = BACKENDS["onnxruntime"]

    def available(self):
        return None

    def executes(self):
        return None

    def export(self, *args):
        return self.real.export(*args)

    def load(self, artifact):
        return self._bent(self.real.load(artifact), ARTEFACT)

    def graph(self, exported):
        return self._bent(self.real.graph(exported), GRAPH)

    def _bent(self, program, name):
        if name == self.where:
            program.run = lambda inputs, run=program.run: {k: v * 1.01 for k, v in run(inputs).items()}
        return program


@pytest.mark.parametrize("where", [GRAPH, ARTEFACT])
def test_names_the_rung_on_which_the_difference_comes_in(kokoro, tmp_path, monkeypatch, where):
    real = rungs.backend
    monkeypatch.setattr("kokoro_nb.backends.onnx.OnnxProgram.__setattr__", object.__setattr__)
    monkeypatch.setattr("kokoro_nb.backends.onnx_reference.OnnxGraph.__setattr__", object.__setattr__)
    monkeypatch.setattr(rungs, "backend", lambda name: _Wrong(where) if name == "wrong" else real(name))
    (ladder,) = ladders(kokoro.model, _small, X, (), ["wrong"], tmp_path)
    assert ladder.first_wrong(1e-4) == where
    assert ladder[where].parity.of_peak == pytest.approx(0.01, rel=1e-3)
    assert ladder[EXPORTED].holds(1e-4) is True


def test_a_runtime_that_is_absent_or_only_builds_is_no_pass(kokoro, tmp_path, monkeypatch):
    class Absent:
        name, form = "absent", ""

        def available(self):
            return "not installed."

    real = rungs.backend
    monkeypatch.setattr(rungs, "backend", lambda name: Absent() if name == "absent" else real(name))
    (ladder,) = ladders(kokoro.model, _small, X, (), ["absent"], tmp_path)
    assert ladder[GRAPH].cell == "skip: not installed."
    assert ladder[ARTEFACT].holds(1) is None
    assert ladder.first_wrong(1) is None


def test_what_cannot_be_exported_falls_there(kokoro, tmp_path):
    class Branches(nn.Module):
        def forward(self, x):
            return x if x.sum() > 0 else -x

    (ladder,) = ladders(kokoro.model, lambda _: Branches(), X, (), ["onnxruntime"], tmp_path)
    assert [rung.name for rung in ladder.rungs] == [EAGER, PATCHED, EXPORTED]
    assert ladder[EXPORTED].cell == "fail: GuardOnDataDependentSymNode"
    assert ladder.first_wrong(1) == EXPORTED


def test_nan_and_failure_are_wrong_and_the_unmeasured_is_unknown():
    exact = np.array([1.0, 2.0])
    nan = Rung(GRAPH, compare(exact, np.array([1.0, np.nan])))
    assert nan.holds(1e9) is False
    assert Rung(GRAPH, failure=Failure("x", "lowered", "E", "m")).holds(1e9) is False
    assert Rung(GRAPH, reason="nothing to run it").holds(1e9) is None
    assert Ladder("x", "", (Rung(EAGER, compare(exact, exact)), nan)).first_wrong(1) == GRAPH
