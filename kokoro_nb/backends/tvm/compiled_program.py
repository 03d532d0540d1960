"""A compiled Relax module on TVM's virtual machine."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kokoro_nb.backends.base import quietly
from kokoro_nb.backends.signature import Arrays, TensorSpec, checked
from kokoro_nb.backends.taps import TapMap
from kokoro_nb.backends.tvm.call_taps import instrument
from kokoro_nb.traces.operators import Taps
from kokoro_nb.traces.trace import Keep, Trace


@dataclass(frozen=True)
class TvmProgram:
    """A virtual machine with our own names of inputs and outputs.

    Attributes
    ----------
    name : str
        Of the backend.
    machine : tvm.relax.VirtualMachine
        Runs the function ``main``.
    inputs : tuple of TensorSpec
        In the order of the parameters of ``main``.
    outputs : tuple of str
        Names, in order.
    taps : callable
        Returns which call of the machine computes which operator.
    """

    name: str
    machine: Any
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[str, ...]
    taps: Callable[[], TapMap]

    def run(self, inputs: Arrays) -> dict[str, np.ndarray]:
        """Run once: see `base.Program.run`."""
        import tvm

        tensors = [tvm.runtime.tensor(array) for array in checked(inputs, self.inputs).values()]
        with quietly():
            results = self.machine["main"](*tensors)
        return {name: result.numpy() for name, result in zip(self.outputs, results, strict=True)}

    def trace(self, inputs: Arrays, taps: Taps = "all", keep: Keep = "stats") -> Trace:
        """Run once, and look at what each call fills as soon as it has: see `base.Program.trace`.

        Of a build with joined functions nothing is seen.
        """
        arrays, known = checked(inputs, self.inputs), self.taps()
        recorder = known.recorder(taps, keep)
        shapes = {operator.name: operator.shape for operator in known.operators}

        def add(name: str, value: np.ndarray) -> None:
            recorder.add(name, value.reshape(shapes[name]))

        self.machine.set_instrument(instrument(known.wanted(taps), add))
        try:
            outputs = self.run(arrays)
        finally:
            self.machine.set_instrument(_nothing)
        return recorder.trace(self.name, arrays, outputs, "calls of the virtual machine")


def _nothing(*_arguments: Any) -> None:
    """Stand in for an instrument: TVM has no way to take one off."""
