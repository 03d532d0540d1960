"""A program by hand: what its operators compute is known, and no runtime is needed to run it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pytest
import torch

from kokoro_nb.locate.verdicts import divergences
from kokoro_nb.traces.trace import CONSTANT, INPUT, Operator, Recorder
from tests.locate.normed_signals import noise


@dataclass(frozen=True)
class Step:
    """One operator: as PyTorch calls it, what it computes, and of what."""

    op: str
    function: Callable
    reads: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Toy:
    """A program as a `Meaning`, run in NumPy; its last step is its output."""

    inputs: Mapping[str, np.ndarray]
    steps: Mapping[str, Step]
    constants: Mapping[str, np.ndarray] = field(default_factory=dict)

    @cached_property
    def operators(self):
        results = {name: np.asarray(self.recompute(name, self.inputs, {}).numpy()) for name in self.steps}
        narrow = {"float64": "float32", "complex128": "complex64"}
        kinds = {name: (value.shape, narrow.get(str(value.dtype), str(value.dtype))) for name, value in results.items()}
        return tuple(Operator(name, f"aten.{s.op}", "", s.reads, *kinds[name]) for name, s in self.steps.items())

    def recompute(self, name, inputs, captured, double=True, substitute=None):
        def value(one):
            if one.startswith(INPUT):
                found = inputs[one.removeprefix(INPUT)]
            elif one.startswith(CONSTANT):
                found = self.constants[one.removeprefix(CONSTANT)]
            elif one in captured and one != name:
                found = captured[one]
            else:
                found = self.steps[one].function(*map(value, self.steps[one].reads))
            wide = {"f": np.float64 if double else np.float32, "c": np.complex128 if double else np.complex64}
            found = np.asarray(found)
            return found.astype(wide.get(found.dtype.kind, found.dtype))

        with np.errstate(all="ignore"):
            result = value(name)
        return torch.tensor(result)

    def trace(self, faults=None, missing=(), dtype=np.float32, keep="full", backend="candidate", taps=None):
        """Run it in `dtype`, each step on what the steps before gave.

        Parameters
        ----------
        faults : mapping
            Name of a step -> what happens to its result.
        missing : sequence
            Steps that are computed and not captured.
        taps : sequence, optional
            Steps that are asked for; all by default.
        """
        values = {f"{INPUT}{name}": value for name, value in self.inputs.items()}
        values |= {f"{CONSTANT}{name}": value for name, value in self.constants.items()}
        recorder = Recorder([one for one in self.operators if taps is None or one.name in taps], keep)
        with np.errstate(all="ignore"):
            values = {name: _kept(value, dtype) for name, value in values.items()}
            for name, step in self.steps.items():
                result = _kept(step.function(*(values[one] for one in step.reads)), dtype)
                values[name] = _kept((faults or {}).get(name, np.copy)(result), dtype)
                if recorder.wants(name) and name not in missing:
                    recorder.add(name, values[name])
        return recorder.trace(backend, self.inputs, {"output": values[name]}, "by hand", self)


def _kept(value, dtype):
    value = np.asarray(value)
    return value.astype(dtype) if value.dtype.kind == "f" else value


@pytest.fixture
def step():
    """Return what makes a step: ``step("sin.default", np.sin, "input:x")``."""
    return lambda op, function, *reads: Step(op, function, reads)


@pytest.fixture
def toy(step):
    """Return what makes a program; by default a fork of five steps that joins again."""

    def make(steps=None, inputs=None, constants=None):
        fork = {
            ":mul": step("mul.Tensor", lambda x: x * 3, "input:x"),
            ":view": step("view.default", lambda x: x.copy(), ":mul"),
            ":sin": step("sin.default", np.sin, ":view"),
            ":tanh": step("tanh.default", np.tanh, ":view"),
            ":add": step("add.Tensor", lambda a, b: a + b, ":sin", ":tanh"),
            ":clamp": step("clamp.default", lambda x: np.clip(x, -1, 1), ":add"),
        }
        return Toy(inputs or {"x": noise((1, 4, 16))}, steps or fork, constants or {})

    return make


@pytest.fixture
def at():
    """Return what puts `value` at an index of a copy."""

    def make(index, value):
        def change(array):
            array = array.copy()
            array[index] = value
            return array

        return change

    return make


@pytest.fixture
def causes(toy, step):
    """Return what the rules say of one operator that gives something else than `function`."""

    def ask(op, function, fault, x, *constants, dtype=np.float32):
        reads = ("input:x", *(f"constant:{place}" for place in range(len(constants))))
        named = {str(place): value for place, value in enumerate(constants)}
        program = toy({":it": step(op, function, *reads)}, {"x": x}, named)
        (found,) = divergences(program.trace(), program.trace({":it": fault}, dtype=dtype))
        return {one.statement: one for one in found.mechanisms}

    return ask
