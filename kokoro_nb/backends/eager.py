"""PyTorch itself, in float32 and in float64: the reference, and the floor beneath which no runtime can be judged."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.backends.base import Artifact, Failure, RungError, loadable, on_rung
from kokoro_nb.backends.exported import Exported
from kokoro_nb.backends.signature import (
    Arrays,
    TensorSpec,
    call_arguments,
    checked,
    example_inputs,
    named_outputs,
    specs,
)
from kokoro_nb.backends.snapshot import active_patches, require_stateless, snapshot, state, with_patches


@dataclass(frozen=True)
class EagerProgram:
    """A copy of the module, run under the class-level patches that were on when it was copied.

    Attributes
    ----------
    module : torch.nn.Module
        The copy.
    inputs : tuple of TensorSpec
        As given at the export.
    declared : tuple of str or None
        The module's `output_names`.
    patches : tuple of str
        Kokoro's class-level patches.
    double : bool
        Compute in float64: float inputs are cast, tensors made inside the forward are float64, and so are the outputs,
        unless the module itself casts to float32.
    """

    module: Any
    inputs: tuple[TensorSpec, ...]
    declared: tuple[str, ...] | None
    patches: tuple[str, ...]
    double: bool

    def run(self, inputs: Arrays) -> dict[str, np.ndarray]:
        """Run once: see `base.Program.run`. float64 arrays are taken as they are where it computes in float64."""
        import torch

        tensors = {name: torch.tensor(array) for name, array in checked(inputs, self.inputs, self.double).items()}
        if self.double:
            tensors = {
                name: tensor.double() if tensor.is_floating_point() else tensor for name, tensor in tensors.items()
            }
        args, kwargs = call_arguments(self.module, tensors)
        with torch.no_grad(), with_patches(self.patches), _default_dtype(self.double):
            outputs = named_outputs(self.module(*args, **kwargs), self.declared)
        return {name: np.array(output.detach().cpu().numpy()) for name, output in outputs.items()}


@dataclass(frozen=True)
class Eager:
    """PyTorch on the CPU. Nothing is written; the export is a copy of the module, run once to learn its outputs."""

    name: str
    double: bool = False

    def available(self) -> str | None:
        """Return None if torch is installed, else the sentence that says so."""
        return None if find_spec("torch") else "torch is not installed; install it with pip install torch."

    def executes(self) -> str | None:
        """Return None: what can be exported runs."""
        return None

    def graph(self, exported: Exported) -> None:
        """Return None: there is no graph but the program."""
        return

    def export(self, module: Any, inputs: Arrays, folder: str | Path | None = None) -> Artifact | Failure:
        """Copy `module`: see `base.Backend.export`; `folder` is not used."""
        if isinstance(module, Failure):
            return replace(module, backend=self.name)
        if isinstance(module, Exported):
            patches, expected = module.patches, module.inputs
            module = module.module
            arrays = checked(inputs, expected)
        else:
            patches = active_patches()
            arrays = example_inputs(module, inputs)
            expected = specs(arrays)
        seconds: dict[str, float] = {}
        declared = getattr(module, "output_names", None)
        try:
            with on_rung("patched", seconds):
                program = EagerProgram(snapshot(module, self.double), expected, declared, patches, self.double)
                before = state(program.module)
                outputs = program.run(arrays)
        except RungError as error:
            return error.failure(self.name)
        require_stateless(before, state(program.module))
        return Artifact(self.name, None, expected, tuple(outputs), seconds, program=program)

    def load(self, artifact: Artifact | Failure) -> EagerProgram:
        """Return the program that the export made."""
        return loadable(artifact, self.name).program


@contextmanager
def _default_dtype(double: bool) -> Iterator[None]:
    """Have tensors that a forward makes be float64 inside, if `double`."""
    import torch

    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64 if double else before)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
