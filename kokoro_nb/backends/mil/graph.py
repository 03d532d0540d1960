"""A MIL program that was never saved, as a program with our own inputs and outputs."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from kokoro_nb.backends.base import quietly
from kokoro_nb.backends.coreml import CoreMl
from kokoro_nb.backends.coreml.conversion import handed_over
from kokoro_nb.backends.exported import Exported
from kokoro_nb.backends.mil.interpreter import Interpreter
from kokoro_nb.backends.mil.rounding import FLOAT32, Arithmetic
from kokoro_nb.backends.mil.values import declared_dtype
from kokoro_nb.backends.signature import Arrays, TensorSpec, checked
from kokoro_nb.time_spent import timed


@dataclass(frozen=True)
class MilGraph:
    """What a torch program was converted to, run before anything is done to it.

    Attributes
    ----------
    interpreter : Interpreter
        Executes it. Its inputs and outputs stand in our order.
    dtypes : tuple of torch.dtype
        What MIL has its inputs in, none of them without an axis.
    inputs : tuple of TensorSpec
        As declared.
    outputs : tuple of str
        Names.
    """

    interpreter: Interpreter
    dtypes: tuple[Any, ...]
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[str, ...]

    @timed("run")
    def run(self, inputs: Arrays) -> dict[str, np.ndarray]:
        """Run once: see `base.Program.run`."""
        import torch

        arrays = [array.reshape(array.shape or (1,)) for array in checked(inputs, self.inputs).values()]
        given = [torch.tensor(array).to(dtype).numpy() for array, dtype in zip(arrays, self.dtypes, strict=True)]
        results = self.interpreter.run(dict(zip(self.interpreter.inputs, given, strict=True)))
        values = (results[name] for name in self.interpreter.outputs)
        return dict(zip(self.outputs, values, strict=True))


def mil_graph(exported: Exported, converter: CoreMl, arithmetic: Arithmetic = FLOAT32) -> MilGraph:
    """Return the MIL program of a module as `converter` begins with it, before coremltools' passes and the saving.

    What those passes change is not in it: where it is right and the file is wrong, a pass is to blame.
    """
    with quietly():
        import coremltools as ct

        program = handed_over(exported, converter.route, converter.core_operators)
        made = converter.converted(exported, program, convert_to="milinternal", pass_pipeline=ct.PassPipeline.EMPTY)
        dtypes = tuple(map(declared_dtype, made.functions["main"].inputs.values()))
        return MilGraph(Interpreter(made, arithmetic), dtypes, exported.inputs, exported.outputs)
