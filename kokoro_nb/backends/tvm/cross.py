"""TVM for machines that this is not: object files, and kernels for graphics processors, built and not executed here."""

import signal
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from kokoro_nb.backends.artefacts import FileBackend
from kokoro_nb.backends.base import Artifact, Failure, Program, on_rung, quietly
from kokoro_nb.backends.exported import Exported
from kokoro_nb.backends.process_request import run_module, write_request
from kokoro_nb.backends.tvm import unavailable
from kokoro_nb.backends.tvm.importer import KERNELS, TARGETS, relax_module
from kokoro_nb.errors import InputError

Machine = Literal["aarch64-linux", "arm64-macos", "metal", "opencl"]

_WORDS: dict[Machine, str] = {
    "aarch64-linux": "64-bit ARM processors under Linux",
    "arm64-macos": "Apple's 64-bit ARM processors under macOS",
    "metal": "graphics processors under Metal, driven by an ARM processor under macOS",
    "opencl": "graphics processors under OpenCL, driven by a 64-bit ARM processor under Linux",
}


@dataclass(frozen=True)
class TvmCross(FileBackend):
    """TVM for another machine.

    The artefact is an archive of object files for that machine, to be linked there into a shared library, which
    `tvm.runtime.load_module` does with the archive by itself. Beside it lie the kernels' sources where there are any.

    Attributes
    ----------
    machine : str
        ``aarch64-linux``, ``arm64-macos``, ``metal`` or ``opencl``.
    matmul : bool
        For graphics processors: use TVM's schedule for matrix products and convolutions. That of Metal ends TVM 0.27
        with a segmentation fault; without it the general schedule is used.

    Notes
    -----
    It is compiled with `tvm.relax.get_default_pipeline` of the target, which schedules the loops of a graphics
    processor and leaves those of a processor as they are written. What TVM 0.27 gets wrong holds here, too. For
    graphics processors it is compiled in a process of its own, since TVM's schedules can end the process.
    """

    machine: Machine = "aarch64-linux"
    matmul: bool = True

    file: ClassVar[str] = "model.tar"
    packages: ClassVar[tuple[str, ...]] = ("apache-tvm", "apache-tvm-ffi")

    def available(self) -> str | None:
        """Return None if TVM can be imported, else the reason why not, in one sentence; no linker is needed."""
        return unavailable()

    def executes(self) -> str | None:
        """Return the reason why the artefact is not run here."""
        return f"{self.name} makes code for {_WORDS[self.machine]}."

    def options(self) -> dict[str, Any]:
        """Return what is compiled for."""
        return {"target": TARGETS[self.machine], "matmul": self.matmul}

    def write(self, exported: Exported, path: Path, seconds: dict[str, float]) -> None:
        """Import, compile, and pack the object files."""
        from kokoro_nb.backends.tvm.cross_compiling import compiled, write_compiled

        with on_rung("lowered", seconds), quietly():
            module = relax_module(exported.program)
            if self.machine in KERNELS:
                self._write_apart(exported.program, path)  # the module itself is what TVM 0.27 cannot save
                return
            built = compiled(module, self.machine, self.matmul)
        with on_rung("serialised", seconds), quietly():
            write_compiled(built, self.machine, path)

    def _write_apart(self, program: Any, path: Path) -> None:
        import torch

        from kokoro_nb.backends.tvm import cross_compiling

        with tempfile.TemporaryDirectory() as room:
            folder = Path(room)
            torch.export.save(program, folder / cross_compiling.PROGRAM)
            write_request(folder, {"machine": self.machine, "matmul": self.matmul, "path": str(path.resolve())})
            done = run_module(cross_compiling.__name__, folder)
        code = done.status or 0
        if code < 0:
            cure = "; tvm-metal-general leaves out its schedule for matrix products" if self.matmul else ""
            raise RuntimeError(f"TVM ended with {signal.Signals(-code).name} while it compiled{cure}.")
        if code:
            raise RuntimeError(done.stdout.strip() or done.stderr.strip() or f"TVM's process ended with status {code}.")

    def load(self, artifact: Artifact | Failure) -> Program:
        """Raise `InputError`: the artefact is for another machine."""
        raise InputError(f"{self.executes()} It cannot be loaded here.")
