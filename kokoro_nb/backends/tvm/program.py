"""A compiled Relax module on TVM's virtual machine."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from kokoro_nb.backends.base import quietly
from kokoro_nb.backends.signature import Arrays, TensorSpec, checked


@dataclass(frozen=True)
class TvmProgram:
    """A virtual machine with our own names of inputs and outputs.

    Attributes
    ----------
    machine : tvm.relax.VirtualMachine
        Runs the function ``main``.
    inputs : tuple of TensorSpec
        In the order of the parameters of ``main``.
    outputs : tuple of str
        Names, in order.
    """

    machine: Any
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[str, ...]

    def run(self, inputs: Arrays) -> dict[str, np.ndarray]:
        """Run once: see `base.Program.run`."""
        import tvm

        tensors = [tvm.runtime.tensor(array) for array in checked(inputs, self.inputs).values()]
        with quietly():
            results = self.machine["main"](*tensors)
        return {name: result.numpy() for name, result in zip(self.outputs, results, strict=True)}
