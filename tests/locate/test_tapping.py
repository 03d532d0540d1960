from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from kokoro_nb.backends import BACKENDS
from kokoro_nb.backends.base import Failure
from kokoro_nb.backends.exported import export_program
from kokoro_nb.errors import InputError
from kokoro_nb.locate.tapping import BEFORE, EXTRA_OUTPUTS, history, traced, with_extra_outputs
from tests.backends.small import present, results

X = {"x": torch.randn(1, 3, 8, generator=torch.Generator().manual_seed(0))}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv1d(3, 3, 3)

    def forward(self, x):
        y = torch.sin(self.conv(x))
        return torch.where(y > 0, torch.exp(y), y)


@pytest.fixture(scope="module")
def exported():
    return export_program(Net(), X)


COMPILED = pytest.param("aot-inductor", True, marks=pytest.mark.slow)  # compiled for 20 s


@pytest.mark.parametrize(("name", "recompiled"), [("eager", False), COMPILED, ("onnxruntime", False)])
def test_every_backend_is_looked_into(name, recompiled, exported, tmp_path):
    expected = results(exported, X)
    trace = traced(present(name), exported, X, keep="full", folder=tmp_path)
    assert (trace.how == EXTRA_OUTPUTS) == recompiled
    assert list(trace.values) == list(expected)
    assert list(trace.outputs) == ["output"]
    for operator, value in trace.values.items():
        np.testing.assert_allclose(value, expected[operator], atol=1e-6)


class FloatsOnly:
    """Refuses an output that is no float."""

    name = "floats-only"

    def export(self, module, inputs, folder=None):
        outputs = module.program.graph.output_node().args[0]
        if not all(node.meta["val"].is_floating_point() for node in outputs):
            return Failure(self.name, "lowered", "TypeError", "a truth value cannot go out")
        return BACKENDS["eager"].export(module, inputs, folder)

    def load(self, artifact):
        return artifact.program


def test_what_is_asked_for_and_nothing_else(exported):
    trace = with_extra_outputs(FloatsOnly(), exported, X, [":exp"])
    assert [tap.name for tap in trace.taps] == [":exp"]
    assert (trace.missing, trace.values) == ((), {})


def test_where_a_backend_takes_no_truth_values_the_floats_are_captured(exported):
    trace = with_extra_outputs(FloatsOnly(), exported, X)
    assert trace.missing == (":gt",)
    assert ":exp" in [tap.name for tap in trace.taps]


def test_a_program_that_cannot_be_exported_is_refused(exported):
    failure = Failure("nothing", "lowered", "TypeError", "no such thing")
    nothing = SimpleNamespace(name="nothing", load=None, export=lambda *_, **__: failure)
    with pytest.raises(InputError, match=r"nothing to look into, for .*no such thing"):
        traced(nothing, exported, X)


INPUTS = {"x": np.array([1.0, 2.0], np.float32), "index": np.array([0], np.int64)}


class Program:
    """Adds up; what it does with its memory is up to the test."""

    def __init__(self, keep):
        self.keep, self.memory, self.seen = keep, 0.0, []

    def run(self, inputs):
        self.seen.append({name: value.copy() for name, value in inputs.items()})
        answer = inputs["x"] + self.memory
        self.memory = self.keep(self.memory, inputs["x"])
        return {"y": answer}


def test_a_program_without_memory_gives_the_same_after_anything():
    program = Program(lambda memory, x: 0.0)
    found = history(program, INPUTS)
    assert not found.depends
    assert list(found.changes) == list(BEFORE)
    assert "same, bit for bit" in found.statement
    assert len(program.seen) == 1 + 2 + 3 * 2
    assert all(np.array_equal(seen["index"], INPUTS["index"]) for seen in program.seen)


def test_memory_that_adds_up_is_seen_on_the_second_call():
    found = history(Program(lambda memory, x: memory + 1.0), INPUTS)
    assert found.changes["itself"] == 1.0
    assert found.depends


def test_poison_that_stays_is_seen_after_nan_alone():
    found = history(Program(lambda memory, x: memory + float(0 * x[0])), INPUTS)
    assert found.changes["itself"] == found.changes["itself twice"] == 0
    assert np.isnan(found.changes["NaN in every float"])
    assert "depends on history" in found.statement
