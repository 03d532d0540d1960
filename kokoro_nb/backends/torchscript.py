"""TorchScript, PyTorch's deployment of old: a trace of the module, run by an interpreter inside libtorch."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from kokoro_nb.backends.artefacts import FileBackend
from kokoro_nb.backends.base import Artifact, Failure, import_failure, on_rung, quietly
from kokoro_nb.backends.called_operators import calls, require_own
from kokoro_nb.backends.exported import Exported
from kokoro_nb.backends.signature import Arrays, TensorSpec, call_arguments, checked, named_outputs
from kokoro_nb.backends.taps import UntracedProgram
from kokoro_nb.patch_registry import with_patches
from kokoro_nb.time_spent import timed

READS_A_NUMBER = ("aten.item.default", "aten._local_scalar_dense.default")


@dataclass(frozen=True)
class TorchScriptProgram(UntracedProgram):
    """A loaded trace."""

    module: Any  # torch.jit.ScriptModule, or torch.jit.mobile.LiteScriptModule
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[str, ...]
    path: Path
    backend: str

    @timed("run")
    def run(self, inputs: Arrays) -> dict[str, np.ndarray]:
        """Run once: see `base.Program.run`."""
        import torch

        tensors = [torch.tensor(array) for array in checked(inputs, self.inputs).values()]
        with torch.no_grad(), quietly():
            results = self.module(*tensors)
        return {name: np.array(result.numpy()) for name, result in zip(self.outputs, results, strict=True)}


@dataclass(frozen=True)
class TorchScript(FileBackend):
    """A module traced by `torch.jit.trace`.

    Attributes
    ----------
    lite : bool
        Write the file for the lite interpreter, which is what PyTorch Mobile runs on phones, and run it in that.

    Notes
    -----
    `graph` is None: a trace is made of PyTorch's own operators, and nothing but PyTorch runs it.

    A trace holds what happened on the example inputs. A branch taken or a loop run according to a value stays as it was
    then, without an error: `torch.export`, which every artefact goes through first, refuses such a module on the rung
    ``exported``. A number read out of a tensor (``x.max().item()``) it lets through, and the trace would keep the
    example's number for good: that is refused here, on the rung ``lowered``.

    TorchScript makes one constant of two that compare equal: where a module holds both 0.0 and -0.0, one of them takes
    the place of the other, and ``atan2(-0.0, -1.0)``, say, comes out as +pi.

    torch 2.13 calls TorchScript and the lite interpreter deprecated, and still writes and runs both.
    """

    lite: bool = False

    file: ClassVar[str] = "model.pt"
    packages: ClassVar[tuple[str, ...]] = ()  # torch itself is always among the versions

    def available(self) -> str | None:
        """Return None if this torch has what it takes, else the reason why not, in one sentence."""
        return import_failure("TorchScript", "torch 2.13", "torch.jit.mobile")

    def options(self) -> dict[str, Any]:
        """Return which interpreter the file is for."""
        return {"lite": self.lite}

    def write(self, exported: Exported, path: Path, seconds: dict[str, float]) -> None:
        """Trace the module and save the trace."""
        with on_rung("lowered", seconds), quietly():
            trace = traced(exported)
        with on_rung("serialised", seconds), quietly():
            if self.lite:
                trace._save_for_lite_interpreter(str(path))
            else:
                trace.save(str(path))

    @timed("load")
    def load(self, artifact: Artifact | Failure) -> TorchScriptProgram:
        """Load the trace; the classes that it was made from are not needed."""
        artifact, path = self.loadable(artifact)
        with quietly():
            import torch
            from torch.jit.mobile import _load_for_lite_interpreter

            load = _load_for_lite_interpreter if self.lite else torch.jit.load
            module = load(str(path))
        return TorchScriptProgram(module, artifact.inputs, artifact.outputs, path, self.name)


def traced(exported: Exported) -> Any:
    """Return the module traced: tensors in the order of the inputs -> a tuple in the order of the outputs.

    The trace is not checked by a second one on the same inputs, torch's `check_trace`: that notices random numbers, and
    nothing that the inputs decide.

    Raises
    ------
    RuntimeError
        If the module reads a number out of a tensor, or calls an operator that is not PyTorch's own.
    """
    import torch

    require_own(exported.program)
    for name, node in calls(exported.program):
        if name in READS_A_NUMBER:
            raise RuntimeError(
                f"The module reads a number out of a tensor ({name} at '{node.name}'), which a trace would keep as it "
                "was on the example inputs; leave it a tensor."
            )

    class Flat(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.module = exported.module

        def forward(self, *tensors: Any) -> tuple[Any, ...]:
            named = {spec.name: tensor for spec, tensor in zip(exported.inputs, tensors, strict=True)}
            args, kwargs = call_arguments(self.module, named)
            outputs = named_outputs(self.module(*args, **kwargs), exported.outputs)
            # a clone, because a tensor of the module may not leave a trace as it is
            return tuple(output.clone() for output in outputs.values())

    args, kwargs = exported.program.example_inputs
    flat = Flat()
    flat.training = False  # the module in it is so already, and one made of an exported program refuses to be told
    with with_patches(exported.patches), torch.no_grad():
        return torch.jit.trace(flat, (*args, *kwargs.values()), check_trace=False)
