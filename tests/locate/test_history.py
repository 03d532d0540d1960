import numpy as np
import pytest
import torch
from torch import nn

from kokoro_nb.backends import backend
from kokoro_nb.locate.history import BEFORE, history

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


@pytest.mark.parametrize("name", ["eager", "onnxruntime"])
def test_real_runtimes_forget(name, tmp_path):
    runtime, x = backend(name), {"x": torch.randn(1, 3, 16, generator=torch.Generator().manual_seed(0))}
    program = runtime.load(runtime.export(nn.Conv1d(3, 4, 3).eval(), {"input": x["x"]}, tmp_path))
    assert not history(program, {"input": x["x"]}).depends
