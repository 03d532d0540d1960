"""ExecuTorch: with a delegate, and without one."""

import copy
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from kokoro_nb.backends.artefacts import Add, FileBackend, FileProgram, NamedArrays
from kokoro_nb.backends.base import Artifact, import_failure, on_rung, quietly
from kokoro_nb.backends.executorch.executorch_private import of_executorch
from kokoro_nb.backends.executorch.tracing import ROOM, Place, logged_run, places, room
from kokoro_nb.backends.exported import Exported
from kokoro_nb.backends.signature import array_of, as_tensors
from kokoro_nb.storage import read_json, write_json
from kokoro_nb.traces.trace import Keep

Name = Literal["xnnpack", "coreml", "vulkan"]

# 0.7 looks for it on the path alone, where it is not if the environment was not activated
if (flatc := Path(sys.executable).with_name("flatc")).exists():
    os.environ.setdefault("FLATC_EXECUTABLE", str(flatc))


@dataclass(frozen=True)
class Delegate:
    """A runtime within the runtime, which takes parts of the graph as a whole."""

    backend_id: str  # what the runtime registers it as, and what a ``.pte`` file calls it
    module: str  # of its partitioner, below ``executorch.backends``
    make: Callable[[Any], Any]  # takes that module; returns the partitioner

    def partitioner(self) -> Any:
        """Return a new partitioner, which says what part of a graph the delegate takes."""
        with quietly():
            return self.make(import_module(f"executorch.backends.{self.module}"))


def _coreml(module: Any) -> Any:
    """Return Core ML's partitioner with float32 in the place of its default, float16."""
    import coremltools as ct

    specs = module.CoreMLBackend.generate_compile_specs(
        minimum_deployment_target=ct.target.iOS17, compute_precision=ct.precision.FLOAT32
    )
    return module.CoreMLPartitioner(compile_specs=specs)


def lowered_to_edge(exported: Exported, partitioner: Any | None) -> Any:
    """Return ExecuTorch's Edge program of a copy of an exported one, parts of it taken as a partitioner says."""
    from executorch.exir import to_edge_transform_and_lower

    chain = [] if partitioner is None else [partitioner]
    return to_edge_transform_and_lower(copy.deepcopy(exported.program), partitioner=chain)


DELEGATES: dict[Name, Delegate] = {
    "xnnpack": Delegate(
        "XnnpackBackend", "xnnpack.partition.xnnpack_partitioner", lambda own: own.XnnpackPartitioner()
    ),
    "coreml": Delegate("CoreMLBackend", "apple.coreml.partition.coreml_partitioner", _coreml),
    "vulkan": Delegate("VulkanBackend", "vulkan.partitioner.vulkan_partitioner", lambda own: own.VulkanPartitioner()),
}


@dataclass(frozen=True)
class ExecutorchProgram(FileProgram):
    """A loaded method; every call runs on the same one, in the memory that the calls before it used."""

    program: Any  # executorch.runtime.Program: holds what the method runs on
    method: Any

    how: ClassVar[str] = "ExecuTorch's event tracer, outside delegates"

    def computed(self, arrays: NamedArrays) -> list[np.ndarray]:
        """Return the outputs: see `FileProgram`."""
        tensors = list(as_tensors(arrays, self.artifact.inputs).values())
        # before the module's outputs a file gives the inputs that the module writes to
        return [array_of(result) for result in self.method.execute(tensors)][-len(self.artifact.outputs) :]

    def captured(self, arrays: NamedArrays, places: Mapping[str, Any], add: Add, keep: Keep) -> list[np.ndarray]:
        """Run the file once with the event tracer on, in a process of its own: see `FileProgram`.

        What is inside a delegate is missing, but for what the delegate hands out.

        Raises
        ------
        RuntimeError
            If the process fails; with what it printed.
        """
        assert self.artifact.path is not None
        size = int(read_json(self.artifact.folder / ROOM, "size of the tracer's buffer")["bytes"])
        run = logged_run(self.artifact.path, arrays, size, dtypes=[spec.dtype for spec in self.artifact.inputs])
        for name, (instruction, place) in places.items() if run.logged else ():  # of what is damaged nothing is shown
            add(name, run.logged[instruction][place])
        return run.outputs[-len(self.artifact.outputs) :]


@dataclass(frozen=True)
class Executorch(FileBackend):
    """ExecuTorch.

    Attributes
    ----------
    delegate : str or None
        What takes parts of the graph: ``xnnpack`` (the CPU), ``coreml`` or ``vulkan``. What it leaves, and with None
        every operator, runs in the kernels that the wheel registers: the portable ones, but for some twenty optimised
        ones (matrix products, arithmetic, exp, gelu, layer norm, softmax, sums; neither convolution nor instance norm).
    saved_state : tuple of str
        Buffers that the program writes to and whose first values are saved; of others ExecuTorch saves the shape alone.

    Notes
    -----
    XNNPACK (in ExecuTorch 1.5.1, on a processor with AVX-512) turns NaN into 0 in ``exp`` and ``softplus``, and gives
    NaN for ``sqrt(inf)``, ``rsqrt(0)`` and ``sin`` or ``cos`` of 3e38. The kernels without it do none of this. On any
    processor its partitioner takes ``gelu(approximate="tanh")`` for the one with erf, which the formula written out
    mends.

    Core ML's partitioner computes in float16 by default; here it is given float32. It stops at ``rsqrt`` of an integer
    tensor, which the patch ``constant_scale`` avoids.
    """

    delegate: Name | None = "xnnpack"
    saved_state: tuple[str, ...] = ()

    file: ClassVar[str] = "model.pte"
    packages: ClassVar[tuple[str, ...]] = ("executorch", "torchao", "coremltools")

    def available(self) -> str | None:
        """Return None if the exporter and the delegate's partitioner can be imported, else the reason why not."""
        own = () if self._delegate is None else (f"executorch.backends.{self._delegate.module}",)
        return import_failure("ExecuTorch", "executorch", "executorch.exir", "executorch.runtime", *own)

    def executes(self) -> str | None:
        """Return None if the runtime in this wheel has the delegate, else the sentence that says so."""
        if self._delegate is None:
            return None
        with quietly():
            from executorch.runtime import Runtime

            registered = Runtime.get().backend_registry.registered_backend_names
        if self._delegate.backend_id in registered:
            return None
        return f"The runtime in this ExecuTorch was built without {self._delegate.backend_id}."

    def options(self) -> dict[str, Any]:
        """Return the delegate, and the buffers whose values are saved, where there are any."""
        return {"delegate": self.delegate} | ({"saved_state": self.saved_state} if self.saved_state else {})

    def partitioner(self, exported: Exported) -> Any | None:
        """Return a new partitioner with which `exported` is lowered: the delegate's; None if there is none."""
        return None if self._delegate is None else self._delegate.partitioner()

    def write(self, exported: Exported, path: Path, seconds: dict[str, float]) -> dict[str, Place]:
        """Lower, plan the memory and write the ``.pte`` file."""
        with on_rung("lowered", seconds), quietly():
            edge = lowered_to_edge(exported, self.partitioner(exported))
        with on_rung("serialised", seconds), quietly():
            from executorch.exir import ExecutorchBackendConfig

            names = [name.replace(".", "_") for name in self.saved_state]  # as the placeholders are called
            passes = [of_executorch("InitializedMutableBufferPass")(names)] if names else []
            program = edge.to_executorch(ExecutorchBackendConfig(passes=passes))
            with path.open("wb") as stream:
                program.write_to_file(stream)
            write_json(path.with_name(ROOM), {"bytes": room(program)})
        return places(program, exported)

    def opened(self, artifact: Artifact, path: Path) -> ExecutorchProgram:
        """Load the program and its one method."""
        from executorch.runtime import Runtime

        program = Runtime.get().load_program(str(path))
        return ExecutorchProgram(artifact, program, program.load_method("forward"))

    @property
    def _delegate(self) -> Delegate | None:
        return None if self.delegate is None else DELEGATES[self.delegate]
