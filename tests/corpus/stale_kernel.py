"""A runtime whose instance norm is the kernel of ExecuTorch 0.7.0, computed: every other operator is PyTorch's.

Its sums begin with what the call before left in the memory (pytorch/executorch#17503), as ``op_native_batch_norm.cpp``
of that version has it; notebook 12 shows that this gives what the record of that version in ``data/replay`` holds.
"""

from dataclasses import dataclass, field

import numpy as np
import torch

from kokoro_nb.backends.base import Artifact, Failure
from kokoro_nb.backends.exported import as_exported
from kokoro_nb.backends.signature import checked
from kokoro_nb.traces.trace import Recorder, chosen
from tests.backends.small import Here


class AccumulatingNorm:
    """Sums and sums of squares are added to the memory of mean and inverse deviation, which is not cleared."""

    def __init__(self, channels):
        self.mean, self.inverse = np.zeros(channels, np.float32), np.zeros(channels, np.float32)

    def __call__(self, x):
        with np.errstate(invalid="ignore", divide="ignore"):
            self.mean = (self.mean + x[0].sum(axis=-1)) / np.float32(x.shape[-1])
            squares = (self.inverse + (x[0] ** 2).sum(axis=-1)) / np.float32(x.shape[-1])
            self.inverse = 1 / np.sqrt(squares - self.mean**2 + np.float32(1e-5))
            return (x - self.mean[:, None]) * self.inverse[:, None]


@dataclass(frozen=True)
class StaleKernel(Here):
    """The backend."""

    name: str = "executorch-0.7-norm"

    def graph(self, exported):
        return None

    def export(self, module, inputs, folder=None):
        exported = as_exported(module, inputs, self.name)
        if isinstance(exported, Failure):
            return exported
        return Artifact(self.name, None, exported.inputs, exported.outputs, program=exported)

    def load(self, artifact):
        return StaleProgram(artifact.program)


@dataclass(frozen=True, eq=False)
class StaleProgram:
    """A loaded program: every call finds the memory of its norms as the one before left it."""

    exported: object
    kernels: dict = field(default_factory=dict)

    def run(self, inputs):
        return self._run(checked(inputs, self.exported.inputs), None)

    def trace(self, inputs, taps="all", keep="stats"):
        arrays = checked(inputs, self.exported.inputs)
        recorder = Recorder(chosen(self.exported.specification.operators, taps), keep)
        outputs = self._run(arrays, recorder)
        return recorder.trace("executorch-0.7-norm", arrays, outputs, "the operators one by one")

    def _run(self, arrays, recorder):
        known = {operator.name: operator for operator in self.exported.specification.operators}
        values = {}

        def change(name, result):
            made = None
            if "instance_norm" in known[name].op:
                read = known[name].inputs[0]
                x = np.asarray(values[read] if read in values else arrays[read.removeprefix("input:")])
                kernel = self.kernels.setdefault(name, AccumulatingNorm(x.shape[1]))
                result = made = torch.from_numpy(np.asarray(kernel(x), np.float32))
            values[name] = result.numpy().copy()
            if recorder is not None and recorder.wants(name):
                recorder.add(name, values[name])
            return made

        return self.exported.specification.run(arrays, change)
