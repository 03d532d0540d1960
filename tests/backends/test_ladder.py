from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

from kokoro_nb.backends import BACKENDS
from kokoro_nb.backends.base import Artifact, Failure
from kokoro_nb.backends.eager import Eager
from kokoro_nb.backends.exported import export_program
from kokoro_nb.backends.ladder import climb, difference
from kokoro_nb.errors import InputError
from tests.backends.small import Of, present

X = {"x": torch.linspace(-1, 1, 5)}


DOUBLE = Of(lambda x: x * 2)


@dataclass(frozen=True)
class Drifting:
    """A runtime that goes wrong in a way of our choosing: the known-bad control of the ladder."""

    name: str = "drifting"
    growth: float = 0.0
    fails_at: int = -1
    load_error: bool = False

    def available(self):
        return None

    def executes(self):
        return None

    def export(self, module, inputs, folder=None):
        return replace(Eager("eager").export(module, inputs), backend=self.name)

    def load(self, artifact):
        if self.load_error:
            raise RuntimeError("error 0x30")
        return _DriftingProgram(artifact.program, self, [])


@dataclass(frozen=True)
class _DriftingProgram:
    program: object
    runtime: Drifting
    calls: list

    def run(self, inputs):
        self.calls.append(None)
        if len(self.calls) - 1 == self.runtime.fails_at:
            raise RuntimeError("error 0x12")
        return {name: value + self.runtime.growth * len(self.calls) for name, value in self.program.run(inputs).items()}


@pytest.mark.parametrize("name", ["eager", "onnxruntime"])
def test_a_climb_that_reaches_the_top(name, tmp_path):
    first = climb(present(name), DOUBLE, X, tmp_path)
    again = climb(BACKENDS[name], export_program(DOUBLE, X), X, tmp_path, calls=1)
    assert first.failure is None
    assert first.outputs["output"].tolist() == first.eager["output"].tolist() == (X["x"] * 2).tolist()
    assert first.drift == 0
    assert len(first.calls) == 3
    assert first.seconds["run"] == first.calls[0]
    rungs = ["patched", "exported", "lowered", "serialised", "loaded", "run"]
    assert list(first.seconds) == (rungs if name == "onnxruntime" else ["patched", "loaded", "run"])
    assert first.size == again.size
    assert again.drift is None


def test_drift_between_calls_is_seen(tmp_path):
    # The three calls are off by 1, 2 and 3 steps of 0.25: the last differs from the first by 0.5.
    assert climb(Drifting(growth=0.25), DOUBLE, X, tmp_path).drift == 0.5


def test_a_later_call_that_fails_leaves_the_first_result(tmp_path):
    result = climb(Drifting(fails_at=1), DOUBLE, X, tmp_path)
    assert result.failure == Failure("drifting", "run", "RuntimeError", "error 0x12")
    assert result.outputs is not None
    assert len(result.calls) == 1


def test_a_program_that_cannot_be_loaded_falls_from_the_rung_loaded(tmp_path):
    result = climb(Drifting(load_error=True), DOUBLE, X, tmp_path)
    assert (result.failure.rung, result.failure.message) == ("loaded", "error 0x30")
    assert isinstance(result.artifact, Artifact)
    assert result.outputs is None


def test_a_module_that_fails_by_itself_falls_from_the_rung_patched(tmp_path):

    result = climb(Drifting(), Of(lambda x: x @ torch.ones(7)), X, tmp_path)
    found = result.failure
    assert (found.backend, found.rung, found.error) == ("drifting", "patched", "RuntimeError")
    assert result.eager is None


def test_an_export_that_fails_keeps_what_eager_gave(tmp_path):

    result = climb(BACKENDS["onnxruntime"], Of(lambda x: x if x.sum() > 1e-3 else -x), X, tmp_path)
    assert (result.failure.backend, result.failure.rung) == ("onnxruntime", "exported")
    assert result.eager["output"].tolist() == (-X["x"]).tolist()
    assert "patched" in result.seconds


def test_no_call_is_refused():
    with pytest.raises(InputError, match="0 calls are too few"):
        climb(Drifting(), DOUBLE, X, calls=0)


@pytest.mark.parametrize(
    ("second", "expected"), [([1.5, np.inf, np.nan], 0.5), ([1.0, -np.inf, np.nan], np.inf), ([1.0, 0, 0], np.nan)]
)
def test_difference_of_outputs(second, expected):
    first = {"y": np.array([1.0, np.inf, np.nan]), "ids": np.array([1])}
    np.testing.assert_equal(difference(first, {**first, "y": np.array(second)}), expected)


def test_what_is_built_for_another_machine_is_not_run(tmp_path, monkeypatch):
    monkeypatch.setattr(Drifting, "executes", lambda self: "needs another machine.")
    taken = climb(Drifting(load_error=True), DOUBLE, X, tmp_path)
    assert (taken.failure, taken.outputs, taken.unexecuted) == (None, None, "needs another machine.")
    assert taken.artifact is not None
