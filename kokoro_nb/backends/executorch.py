"""ExecuTorch: with the XNNPACK delegate, and without a delegate."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from kokoro_nb.backends.artefacts import FileBackend
from kokoro_nb.backends.base import Artifact, Failure, loadable, on_rung, quietly
from kokoro_nb.backends.exported import Exported
from kokoro_nb.backends.signature import Arrays, TensorSpec, checked


@dataclass(frozen=True)
class ExecutorchProgram:
    """A loaded method; every call runs on the same one, in the memory that the calls before it used."""

    program: Any  # executorch.runtime.Program: holds what the method runs on
    method: Any
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[str, ...]

    def run(self, inputs: Arrays) -> dict[str, np.ndarray]:
        """Run once: see `base.Program.run`."""
        import torch

        tensors = [torch.tensor(array) for array in checked(inputs, self.inputs).values()]
        with quietly():
            results = self.method.execute(tensors)
        return {name: result.numpy() for name, result in zip(self.outputs, results, strict=True)}


@dataclass(frozen=True)
class Executorch(FileBackend):
    """ExecuTorch on the CPU.

    Attributes
    ----------
    xnnpack : bool
        Give XNNPACK what it takes. Otherwise there is no delegate at all: every operator runs in the kernels that the
        wheel registers. These are the portable ones, but for some twenty that it replaces by optimised ones (matrix
        products, arithmetic, exp, gelu, layer norm, softmax, sums; neither convolution nor instance norm).

    Notes
    -----
    XNNPACK (in ExecuTorch 1.5.1, on a processor with AVX-512) turns NaN into 0 in ``exp`` and ``softplus``, and gives
    NaN for ``sqrt(inf)``, ``rsqrt(0)`` and ``sin`` or ``cos`` of 3e38. The kernels without it do none of this.
    """

    xnnpack: bool = True

    file: ClassVar[str] = "model.pte"
    packages: ClassVar[tuple[str, ...]] = ("executorch", "torchao")

    def available(self) -> str | None:
        """Return None if the exporter and the runtime can be imported, else the reason why not, in one sentence."""
        try:
            with quietly():
                import executorch.exir  # noqa: F401
                from executorch.runtime import Runtime

                registered = Runtime.get().backend_registry.registered_backend_names
        except (ImportError, OSError) as error:
            return f"ExecuTorch cannot be used here ({error}); install executorch for this platform."
        if self.xnnpack and "XnnpackBackend" not in registered:
            return "This ExecuTorch was built without XNNPACK; install one that has it."
        return None

    def options(self) -> dict[str, Any]:
        """Return whether there is a delegate."""
        return {"xnnpack": self.xnnpack}

    def write(self, exported: Exported, path: Path, seconds: dict[str, float]) -> None:
        """Lower, plan the memory and write the ``.pte`` file."""
        with on_rung("lowered", seconds), quietly():
            from executorch.exir import to_edge_transform_and_lower

            edge = to_edge_transform_and_lower(exported.program, partitioner=self._partitioners())
        with on_rung("serialised", seconds), quietly():
            program = edge.to_executorch()
            with path.open("wb") as stream:
                program.write_to_file(stream)

    def load(self, artifact: Artifact | Failure) -> ExecutorchProgram:
        """Load the program and its one method."""
        artifact = loadable(artifact, self.name)
        with quietly():
            from executorch.runtime import Runtime

            program = Runtime.get().load_program(str(artifact.path))
            method = program.load_method("forward")
        return ExecutorchProgram(program, method, artifact.inputs, artifact.outputs)

    def _partitioners(self) -> list[Any]:
        if not self.xnnpack:
            return []
        from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

        return [XnnpackPartitioner()]
