"""An exported program run by PyTorch, operator by operator: what a graph means before any runtime has touched it."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from kokoro_nb.backends.signature import Arrays, TensorSpec, checked


@dataclass(frozen=True)
class Interpreted:
    """An `ExportedProgram`, of any dialect whose operators PyTorch can run.

    Attributes
    ----------
    program : torch.export.ExportedProgram
        The program; it is not changed.
    inputs : tuple of TensorSpec
        In the order in which the program takes them.
    outputs : tuple of str
        Names, in order.
    """

    program: Any
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[str, ...]

    def run(self, inputs: Arrays) -> dict[str, np.ndarray]:
        """Run once: see `base.Program.run`."""
        import torch
        from torch.utils._pytree import tree_leaves, tree_unflatten

        tensors = [torch.tensor(array) for array in checked(inputs, self.inputs).values()]
        args, kwargs = tree_unflatten(tensors, self.program.call_spec.in_spec)
        with torch.no_grad():
            leaves = tree_leaves(self._module(*args, **kwargs))
        return {name: np.array(leaf.numpy()) for name, leaf in zip(self.outputs, leaves, strict=True)}

    @cached_property
    def _module(self) -> Any:
        return self.program.module()
