"""PyTorch itself, in float32 and in float64: the reference, and the floor beneath which no runtime can be judged."""

from dataclasses import dataclass, replace
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.backends import signature
from kokoro_nb.backends.base import Artifact, Failure, RungError, loadable, on_rung
from kokoro_nb.backends.called_operators import default_dtype
from kokoro_nb.backends.exported import Exported, export_program, snapshot, state, wrote
from kokoro_nb.errors import InputError
from kokoro_nb.patch_registry import active_patches, with_patches
from kokoro_nb.traces.trace import Keep, Recorder, Taps, Trace, chosen


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
        Names of those patches.
    double : bool
        Compute in float64: float inputs are cast, tensors made inside the forward are float64, and so are the outputs,
        unless the module itself casts to float32.
    source : Exported or None
        The exported program of which `module` is a copy; None where the module was given itself.
    keeps_state : bool
        Whether the module writes to its buffers when it runs, so that a second call differs from the first.
    """

    module: Any
    inputs: tuple[signature.TensorSpec, ...]
    declared: tuple[str, ...] | None
    patches: tuple[str, ...]
    double: bool
    source: Exported | None = None
    keeps_state: bool = False

    def run(self, inputs: signature.Arrays) -> dict[str, np.ndarray]:
        """Run once: see `base.Program.run`. float64 arrays are taken as they are where it computes in float64."""
        import torch

        tensors = signature.as_tensors(signature.checked(inputs, self.inputs, self.double), self.inputs)
        if self.double:
            tensors = {name: one.double() if one.is_floating_point() else one for name, one in tensors.items()}
        args, kwargs = signature.call_arguments(self.module, tensors)
        with torch.no_grad(), with_patches(self.patches), default_dtype(self.double):
            outputs = signature.named_outputs(self.module(*args, **kwargs), self.declared)
        return {name: np.array(signature.array_of(output)) for name, output in outputs.items()}

    def trace(self, inputs: signature.Arrays, taps: Taps = "all", keep: Keep = "stats") -> Trace:
        """Run the exported program operator by operator: see `base.Program.trace`."""
        arrays = signature.checked(inputs, self.inputs, self.double)
        specification = self._exported.specification
        recorder = Recorder(chosen(specification.operators, taps), keep)

        def observe(name: str, result: Any) -> None:
            if recorder.wants(name):
                recorder.add(name, signature.array_of(result))

        outputs = specification.run(arrays, observe, self.double)
        name = "eager-float64" if self.double else "eager"
        return recorder.trace(name, arrays, outputs, "PyTorch, operator by operator", specification)

    @cached_property
    def _exported(self) -> Exported:
        if self.source is not None:
            return self.source
        # what the inputs hold is nothing to an export, their form is
        anything = {spec.name: signature.as_tensor(np.zeros(spec.shape, spec.held), spec.dtype) for spec in self.inputs}
        with with_patches(self.patches):
            exported = export_program(self.module, anything)
        if isinstance(exported, Failure):
            raise InputError(f"The module cannot be traced operator by operator: {exported}")
        return exported


@dataclass(frozen=True)
class Eager:
    """PyTorch on the CPU. Nothing is written; the export is a copy of the module, run once to learn its outputs."""

    name: str
    double: bool = False

    def available(self) -> str | None:
        """Return None if torch is installed, else the sentence that says so."""
        return None if find_spec("torch") else "torch is not installed; install it with pip install 'kokoro_nb[torch]'."

    def executes(self) -> str | None:
        """Return None: what can be exported runs."""
        return None

    def export(self, module: Any, inputs: signature.Arrays, folder: str | Path | None = None) -> Artifact | Failure:
        """Copy `module`: see `base.Backend.export`; `folder` is not used."""
        if isinstance(module, Failure):
            return replace(module, backend=self.name)
        source = module if isinstance(module, Exported) else None
        if source is not None:
            module, patches, expected = source.module, source.patches, source.inputs
            arrays = signature.checked(inputs, expected)
        else:
            patches = active_patches()
            arrays = signature.example_inputs(module, inputs)
            expected = signature.specs({name: inputs[name] for name in arrays})
        seconds: dict[str, float] = {}
        declared = getattr(module, "output_names", None)
        try:
            with on_rung("patched", seconds):
                program = EagerProgram(snapshot(module, self.double), expected, declared, patches, self.double, source)
                before = state(program.module)
                outputs = program.run(arrays)
        except RungError as error:
            return error.failure(self.name)
        if wrote(before, state(program.module)):
            program = replace(program, module=snapshot(module, self.double), keeps_state=True)
        return Artifact(self.name, None, expected, tuple(outputs), seconds, program=program)

    def load(self, artifact: Artifact | Failure) -> EagerProgram:
        """Return the program that the export made, in the state that it was in then."""
        program: EagerProgram = loadable(artifact, self.name).program
        return replace(program, module=snapshot(program.module)) if program.keeps_state else program
