"""ONNX, written by `torch.onnx.export(dynamo=True)` and run by ONNX Runtime on the CPU."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from kokoro_nb.backends.artefacts import FileBackend
from kokoro_nb.backends.base import Artifact, Failure, loadable, on_rung, quietly
from kokoro_nb.backends.exported import Exported
from kokoro_nb.backends.onnx_reference import OnnxGraph, evaluated
from kokoro_nb.backends.signature import Arrays, TensorSpec, checked

OPSET = 18  # what torch's exporter writes by itself; a lower or higher one is converted afterwards


@dataclass(frozen=True)
class OnnxProgram:
    """A session of ONNX Runtime, with the names of our own inputs and outputs."""

    session: Any
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[str, ...]

    def run(self, inputs: Arrays) -> dict[str, np.ndarray]:
        """Run once: see `base.Program.run`."""
        arrays = checked(inputs, self.inputs)
        names = [node.name for node in self.session.get_inputs()]
        with quietly():
            results = self.session.run(None, dict(zip(names, arrays.values(), strict=True)))
        return dict(zip(self.outputs, results, strict=True))


@dataclass(frozen=True)
class OnnxRuntime(FileBackend):
    """ONNX Runtime on the CPU.

    Attributes
    ----------
    threads : int or None
        Threads within an operator; None leaves the choice to ONNX Runtime.
    single_file_limit : int
        Bytes of weights above which they are kept in a file of their own: an ONNX file holds less than 2 GiB.

    Notes
    -----
    torch's exporter (2.13) writes ``atan2(y, x)`` as ``atan(y / x)`` with corrections, the last of which puts 0 in
    place of NaN: a NaN in either argument, and two infinite arguments, come out as 0. ``atan2(+0, x)`` of a negative x
    comes out as -pi instead of +pi.
    """

    threads: int | None = None
    single_file_limit: int = 2**31 - 2**26

    file: ClassVar[str] = "model.onnx"
    packages: ClassVar[tuple[str, ...]] = ("onnx", "onnxscript", "onnxruntime")
    form: ClassVar[str] = "ONNX"

    def available(self) -> str | None:
        """Return None if the exporter and ONNX Runtime can be imported, else the reason why not, in one sentence."""
        try:
            with quietly():
                import onnx  # noqa: F401
                import onnxruntime  # noqa: F401
                import onnxscript  # noqa: F401
        except (ImportError, OSError) as error:
            return f"ONNX Runtime cannot be used here ({error}); install onnx, onnxscript and onnxruntime."
        return None

    def options(self) -> dict[str, Any]:
        """Return the opset and the limit of a single file."""
        return {"opset": OPSET, "single_file_limit": self.single_file_limit}

    def write(self, exported: Exported, path: Path, seconds: dict[str, float]) -> None:
        """Convert, save and check the model."""
        with on_rung("lowered", seconds), quietly():
            model = onnx_program(exported)
        with on_rung("serialised", seconds), quietly():
            import onnx

            weights = sum(value.const_value.nbytes for value in model.model.graph.initializers.values())
            model.save(str(path), external_data=weights > self.single_file_limit)
            onnx.checker.check_model(str(path))

    def graph(self, exported: Exported) -> OnnxGraph:
        """Return the graph as onnx's own reference implementation runs it, in NumPy."""
        with on_rung("lowered"), quietly():
            return evaluated(onnx_program(exported).model_proto, exported.inputs, exported.outputs)

    def load(self, artifact: Artifact | Failure) -> OnnxProgram:
        """Open a session."""
        artifact = loadable(artifact, self.name)
        with quietly():
            import onnxruntime

            options = onnxruntime.SessionOptions()
            if self.threads is not None:
                options.intra_op_num_threads = self.threads
            session = onnxruntime.InferenceSession(str(artifact.path), options, providers=["CPUExecutionProvider"])
        return OnnxProgram(session, artifact.inputs, artifact.outputs)


def onnx_program(exported: Exported) -> Any:
    """Return `exported` as torch's exporter writes it, a ``torch.onnx.ONNXProgram`` with our names."""
    import torch

    names = [spec.name for spec in exported.inputs]
    return torch.onnx.export(
        exported.program,
        dynamo=True,
        opset_version=OPSET,
        input_names=names,
        output_names=[name if name not in names else f"{name}_out" for name in exported.outputs],
        verbose=False,
    )
