"""A MIL program that was never saved, as a program with our own inputs and outputs."""

from dataclasses import dataclass

import numpy as np

from kokoro_nb.backends.base import quietly
from kokoro_nb.backends.coreml.conversion import mil_program
from kokoro_nb.backends.exported import Exported, output_specs
from kokoro_nb.backends.mil.interpreter import Interpreter
from kokoro_nb.backends.mil.rounding import FLOAT32, Arithmetic
from kokoro_nb.backends.signature import Arrays, TensorSpec, checked
from kokoro_nb.time_spent import timed


@dataclass(frozen=True)
class MilGraph:
    """What a torch program was converted to, run before anything is done to it.

    Attributes
    ----------
    interpreter : Interpreter
        Executes it. Its inputs and outputs stand in our order; MIL has no integers of 64 bits and no input without an
        axis.
    inputs, outputs : tuple of TensorSpec
        As declared.
    """

    interpreter: Interpreter
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]

    @timed("run")
    def run(self, inputs: Arrays) -> dict[str, np.ndarray]:
        """Run once: see `base.Program.run`."""
        arrays = [array.reshape(array.shape or (1,)) for array in checked(inputs, self.inputs).values()]
        results = self.interpreter.run(dict(zip(self.interpreter.inputs, arrays, strict=True)))
        declared = zip(self.outputs, results.values(), strict=True)
        return {spec.name: result.astype(spec.dtype).reshape(spec.shape) for spec, result in declared}


def mil_graph(exported: Exported, route: str, target: str, arithmetic: Arithmetic = FLOAT32) -> MilGraph:
    """Return the MIL program of a module, in float32, before coremltools' optimisation passes and the saving.

    What those passes change is not in it: where it is right and the file is wrong, a pass is to blame. The parameters
    are those of `conversion.mil_program`.
    """
    with quietly():
        interpreter = Interpreter(mil_program(exported, route, target), arithmetic)
    return MilGraph(interpreter, exported.inputs, output_specs(exported))
