"""Qualcomm's NPU: ONNX compiled to a context binary for one chip, run on the simulator of its HTP."""

import platform
import sys
import tempfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from kokoro_nb.backends.artefacts import FileBackend, FileProgram, NamedArrays
from kokoro_nb.backends.base import Artifact, on_rung, quietly
from kokoro_nb.backends.exported import Exported
from kokoro_nb.backends.onnx import OnnxRuntime
from kokoro_nb.backends.qnn.process import Worker, chip_options, compile_checked

_ONNX = OnnxRuntime("onnxruntime")


@dataclass(frozen=True)
class QnnProgram(FileProgram):
    """A context loaded by the provider, in a process of its own that lives as long as this object."""

    worker: Worker

    def computed(self, arrays: NamedArrays) -> list[np.ndarray]:
        """Return the outputs: see `FileProgram`.

        Raises
        ------
        QnnError
            If the provider refuses, or the process dies of it; load the artefact again then.
        """
        # as the ONNX file has them
        wanted = [name if name not in arrays else f"{name}_out" for name in self.artifact.outputs]
        results: list[np.ndarray] = self.worker.ask("run", feeds=arrays, outputs=wanted)
        return results


@dataclass(frozen=True)
class Qnn(FileBackend):
    """ONNX Runtime with Qualcomm's provider, for the HTP (the NPU of Snapdragon chips).

    What the NPU does not take stays in the artefact as ONNX and runs on the CPU; `assignment` tells the two apart. A
    module of which it takes nothing is not exported. Both the compiler and the program run in processes of their own.

    Attributes
    ----------
    soc_model : str
        Qualcomm's number of the chip: ``57`` is the SM8650, Snapdragon 8 Gen 3.

    Notes
    -----
    A float32 model is computed on float16 numbers, whether or not ``enable_htp_fp16_precision`` is set: the binaries
    are the same to the byte. So it is, as a product with 1 shows, for 14 of the 21 chips in the table; six refuse a
    float convolution (SSG2115P, SSG2125P, SXR1230P, SAR2230P, SW6100, QCM6490). For SM8350, and where no ``soc_model``
    is given, the simulator computes in float32: a graph may pass there that fails on a device. So a chip is always
    given.

    The sine is the coarsest operator found: 1 % of its peak off for arguments up to 10, and 10 % up to 100, where the
    rounding of the argument accounts for 0.4 % and 3 %. Exponential, square, root, reciprocal, mean, instance norm,
    both convolutions, leaky ReLU, arc tangent and product of normally distributed numbers keep to 0.2 %.

    In float16 the simulator knows no infinities and no NaN, whichever the chip: they become numbers, the largest being
    131008. The provider's source says that from version 79 on an overflow in a convolution becomes NaN on the device.
    Nor does the simulator mind for which version an artefact was built.

    Licence of the wheel (onnxruntime-qnn 2.7.0): the provider is under the MIT licence. Qualcomm's libraries beneath it
    are not free: their "AI Stack License" in the wheel lets one use and copy them to develop applications and to
    benchmark, and pass them on as object code within an application of one's own, but not by themselves; it forbids
    reverse engineering and a list of uses (section 2d), licenses no patents, and can be withdrawn at any time. It does
    not speak of compiled contexts. So this project ships neither the libraries nor a context: both stay on the machine
    that fetched or made them.
    """

    soc_model: str = "57"

    file: ClassVar[str] = "model_ctx.onnx"
    packages: ClassVar[tuple[str, ...]] = ("onnx", "onnxscript", "onnxruntime", "onnxruntime-qnn")

    def available(self) -> str | None:
        """Return None if ONNX Runtime and Qualcomm's provider are installed, else the reason, in one sentence."""
        if find_spec("onnxruntime_qnn") is None:
            return "Qualcomm's provider is not installed; install it with pip install 'kokoro_nb[qnn]'."
        return _ONNX.available()

    def executes(self) -> str | None:
        """Return None where the wheel brings the simulator, else the reason why not, in one sentence."""
        if sys.platform == "linux" and platform.machine() == "x86_64":
            return None
        return "The simulator of the HTP comes with the wheel for Linux on x86-64 only; run the artefact on the device."

    def options(self) -> dict[str, Any]:
        """Return the options of the provider, as they are given to it.

        Raises
        ------
        InputError
            If there is no such chip.
        """
        return {"provider": chip_options(self.soc_model)}

    def write(self, exported: Exported, path: Path, seconds: dict[str, float]) -> None:
        """Convert to ONNX, which is not kept, and compile."""
        with tempfile.TemporaryDirectory() as room:
            model = Path(room) / _ONNX.file
            converted: dict[str, float] = {}
            _ONNX.write(exported, model, converted)
            seconds["lowered"] = sum(converted.values())
            with on_rung("serialised", seconds), quietly():
                compile_checked(model, path, self.options()["provider"])

    def opened(self, artifact: Artifact, path: Path) -> QnnProgram:
        """Have the provider load the context."""
        worker = Worker()
        worker.ask("open", model=str(path), options=self.options()["provider"], config={})
        return QnnProgram(artifact, worker)
