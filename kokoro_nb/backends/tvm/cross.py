"""TVM for machines that this is not: object files, and kernels for graphics processors, built and not executed here."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from kokoro_nb.backends.artefacts import FileBackend
from kokoro_nb.backends.base import Artifact, Failure, Program, on_rung, quietly
from kokoro_nb.backends.exported import Exported
from kokoro_nb.backends.tvm import targets
from kokoro_nb.backends.tvm.importer import relax_module
from kokoro_nb.backends.tvm.tvm_backend import unavailable
from kokoro_nb.errors import InputError

Machine = Literal["aarch64-linux", "arm64-macos", "metal", "opencl"]

_TARGETS: dict[Machine, dict[str, Any]] = {
    "aarch64-linux": targets.ARM_LINUX,
    "arm64-macos": targets.ARM_MACOS,
    "metal": {"kind": "metal"},
    "opencl": {"kind": "opencl"},
}
_WORDS: dict[Machine, str] = {
    "aarch64-linux": "64-bit ARM processors under Linux",
    "arm64-macos": "Apple's 64-bit ARM processors under macOS",
    "metal": "graphics processors under Metal, driven by an ARM processor under macOS",
    "opencl": "graphics processors under OpenCL, driven by a 64-bit ARM processor under Linux",
}
_SOURCES: dict[Machine, str] = {"metal": "kernels.metal", "opencl": "kernels.cl"}


@dataclass(frozen=True)
class TvmCross(FileBackend):
    """TVM for another machine.

    The artefact is an archive of object files for that machine, to be linked there into a shared library, which
    `tvm.runtime.load_module` does with the archive by itself. Beside it lie the kernels' sources where there are any.

    Attributes
    ----------
    machine : str
        ``aarch64-linux``, ``arm64-macos``, ``metal`` or ``opencl``.

    Notes
    -----
    It is compiled with `tvm.relax.get_default_pipeline` of the target, which schedules the loops of a graphics
    processor and leaves those of a processor as they are written. What TVM 0.27 gets wrong holds here, too.
    """

    machine: Machine = "aarch64-linux"

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
        return {"target": _TARGETS[self.machine]}

    def write(self, exported: Exported, path: Path, seconds: dict[str, float]) -> None:
        """Import, compile, and pack the object files."""
        kernels = _SOURCES.get(self.machine)
        with on_rung("lowered", seconds), quietly():
            import tvm

            target = targets.target(_TARGETS[self.machine])
            pipeline = tvm.relax.get_default_pipeline(target)
            built = tvm.compile(relax_module(exported.program), target=target, relax_pipeline=pipeline)
        with on_rung("serialised", seconds), quietly():
            built.export_library(str(path))
            if kernels is not None:
                path.with_name(kernels).write_text(_kernels(built.mod, self.machine), encoding="utf-8")

    def load(self, artifact: Artifact | Failure) -> Program:
        """Raise `InputError`: the artefact is for another machine."""
        raise InputError(f"{self.executes()} It cannot be loaded here.")


def _kernels(module: Any, kind: str) -> str:
    """Return the sources of the kernels in a compiled module and those that it imports."""
    own = [module.inspect_source()] if module.kind == kind else []
    return "\n".join([*own, *(_kernels(part, kind) for part in module.imports)])
