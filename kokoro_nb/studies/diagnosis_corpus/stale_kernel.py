"""A runtime whose instance norm is the kernel of ExecuTorch 0.7.0, computed: every other operator is PyTorch's.

The recorded replay of 0.7.0 shows that this kernel gives what that version gave: its sums begin with what the call
before left in the memory. It lets the fault be diagnosed where that version does not install.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.backends.base import Artifact, Failure
from kokoro_nb.backends.exported import Exported, as_exported
from kokoro_nb.backends.signature import Arrays, checked
from kokoro_nb.studies.executorch_0_7.norm_kernel import AccumulatingNorm
from kokoro_nb.traces.operators import Taps, chosen
from kokoro_nb.traces.trace import Keep, Recorder, Trace

NAME = "executorch-0.7-norm"


@dataclass(frozen=True)
class StaleKernel:
    """The backend."""

    name: str = NAME

    def available(self) -> str | None:
        """Return None: it needs PyTorch alone."""
        return None

    def executes(self) -> str | None:
        """Return None: it runs anywhere."""
        return None

    def graph(self, exported: Any) -> None:
        """Return None: there is no lowered graph."""
        return

    def export(self, module: Any, inputs: Arrays, folder: str | Path | None = None) -> Artifact | Failure:
        """Export the module to memory."""
        exported = as_exported(module, inputs, self.name)
        if isinstance(exported, Failure):
            return exported
        return Artifact(self.name, None, exported.inputs, exported.outputs, program=exported)

    def load(self, artifact: Artifact | Failure) -> "StaleProgram":
        """Return a program whose memory is clear."""
        assert isinstance(artifact, Artifact)
        return StaleProgram(artifact.program)


@dataclass(frozen=True, eq=False)
class StaleProgram:
    """A loaded program: every call finds the memory of its norms as the one before left it."""

    exported: Exported
    kernels: dict[str, AccumulatingNorm] = field(default_factory=dict)

    def run(self, inputs: Arrays) -> dict[str, np.ndarray]:
        """Run once: see `base.Program.run`."""
        return self._run(checked(inputs, self.exported.inputs), None)

    def trace(self, inputs: Arrays, taps: Taps = "all", keep: Keep = "stats") -> Trace:
        """Run once and capture every operator: see `base.Program.trace`."""
        arrays = checked(inputs, self.exported.inputs)
        recorder = Recorder(chosen(self.exported.specification.operators, taps), keep)
        outputs = self._run(arrays, recorder)
        return recorder.trace(NAME, arrays, outputs, "the operators one by one")

    def _run(self, arrays: Mapping[str, np.ndarray], recorder: Recorder | None) -> dict[str, np.ndarray]:
        import torch

        known = {operator.name: operator for operator in self.exported.specification.operators}
        values: dict[str, Any] = {}

        def change(name: str, result: Any) -> Any:
            operator, made = known[name], None
            if "instance_norm" in operator.op:
                read = operator.inputs[0]
                x = values[read] if read in values else arrays[read.removeprefix("input:")]
                kernel = self.kernels.setdefault(name, AccumulatingNorm(x.shape[1]))
                result = made = torch.from_numpy(np.asarray(kernel(np.asarray(x)), np.float32))
            values[name] = result.numpy().copy()
            if recorder is not None and recorder.wants(name):
                recorder.add(name, values[name])
            return made

        return self.exported.specification.run(arrays, change)


STALE_KERNEL = StaleKernel()
