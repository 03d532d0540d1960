"""AOTInductor, PyTorch's deployment of today: the exported program compiled to machine code for this processor."""

import os
import shutil
import subprocess
import tempfile
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from kokoro_nb.backends.artefacts import FileBackend, FileProgram, NamedArrays
from kokoro_nb.backends.base import Artifact, on_rung, quietly
from kokoro_nb.backends.called_operators import require_own
from kokoro_nb.backends.exported import Exported
from kokoro_nb.backends.signature import array_of, as_tensors
from kokoro_nb.errors import undocumented
from kokoro_nb.storage import cache_dir

SEEN_IN = {"torch": ("2.8", "2.14")}  # what is called of `torch._inductor` and is not documented
_CONFIGS = {
    "aot_inductor.compile_wrapper_opt_level": "O0",  # of what calls the kernels, which always get -O3
    # 290 MB that would stay behind in the system's temporary folder; they save 1.5 s per export
    "aot_inductor.precompile_headers": False,
}


@dataclass(frozen=True)
class AotInductorProgram(FileProgram):
    """A loaded package."""

    model: Any  # torch.export.pt2_archive._package.AOTICompiledModel

    def computed(self, arrays: NamedArrays) -> list[np.ndarray]:
        """Return the outputs: see `FileProgram`."""
        tensors = list(as_tensors(arrays, self.artifact.inputs).values())
        return [array_of(result) for result in self.model.loader.run(tensors)]


@dataclass(frozen=True)
class AotInductor(FileBackend):
    """AOTInductor on the CPU.

    Notes
    -----
    The package holds a shared library for the processor and the number of threads that it was compiled for. Both are
    part of the artefact's key; torch checks neither when it loads a package on another machine.

    Inductor writes zeros for every product with the integer 0, so that NaN and infinity end there, and ``x % 1`` as
    ``x - floor(x / 1)`` where it vectorises: PyTorch's -0 becomes +0. Its ``gelu(inf)`` is inf, where PyTorch's own is
    NaN on some processors. Of 24 elementwise operators and reductions nothing else came out otherwise on NaN,
    infinities, zeros of either sign and numbers near either end of float32.
    """

    file: ClassVar[str] = "model.pt2"
    packages: ClassVar[tuple[str, ...]] = ()  # torch itself is always among the versions

    def available(self) -> str | None:
        """Return None if there is a C++ compiler, else the reason why not, in one sentence."""
        if shutil.which(compiler()) is None:
            return f"There is no C++ compiler '{compiler()}' here; install g++, or name another one in $CXX."
        return None

    def options(self) -> dict[str, Any]:
        """Return what the machine code depends on: compiler, processor, threads, and our own choice."""
        import torch

        return {
            "compiler": compiler_version(compiler()),
            "processor": processor_flags(compiler()),
            "capability": torch.backends.cpu.get_cpu_capability(),
            "threads": torch.get_num_threads(),
            "configs": _CONFIGS,
        }

    def write(self, exported: Exported, path: Path, seconds: dict[str, float]) -> None:
        """Compile and package the program; what compiler and Inductor need meanwhile lies in a temporary folder."""
        with on_rung("lowered", seconds), quietly(), tempfile.TemporaryDirectory() as room:
            import torch

            require_own(exported.program)
            _find_vector_instructions()
            with _cached_in(room), torch.no_grad():
                torch._inductor.aoti_compile_and_package(
                    exported.program,
                    package_path=str(path),
                    inductor_configs={**_CONFIGS},  # torch adds to it
                )

    def opened(self, artifact: Artifact, path: Path) -> AotInductorProgram:
        """Load the package: its library is unpacked into a temporary folder, which goes when the program does."""
        import torch

        return AotInductorProgram(artifact, torch._inductor.aoti_load_package(str(path)))


def compiler() -> str:
    """Return the C++ compiler that Inductor calls: ``$CXX``, or the system's usual one."""
    from torch._inductor import config

    return str(config.cpp.cxx[-1])


@cache
def compiler_version(name: str) -> str:
    """Return the first line of what the compiler says of its version; ``absent`` if there is none."""
    return (_printed(name, "--version").splitlines() or ["absent"])[0]


@cache
def processor_flags(name: str) -> tuple[str, ...]:
    """Return what ``-march=native`` stands for on this processor, as the compiler hands it to its own first stage."""
    lines = _printed(name, "-march=native", "-E", "-x", "c++", os.devnull, "-v").splitlines()
    words = next((line.split() for line in lines if " -quiet " in line or '"-cc1"' in line), [])
    return tuple(sorted(word.strip('"') for word in words if word.strip('"').startswith(("-m", "+"))))


def _find_vector_instructions() -> None:
    """Have Inductor try out which vector instructions work here, once for a process.

    It compiles ten small libraries for that, 8 s, unless it finds them: they are kept in the cache, 0.3 MB.
    """
    with _cached_in(str(cache_dir() / "inductor")), suppress(ImportError):  # of another version: it takes longer
        from torch._inductor.cpu_vec_isa import pick_vec_isa

        pick_vec_isa()


def _cached_in(folder: str) -> AbstractContextManager[None]:
    """Have Inductor keep what it makes in a folder."""
    module = "torch._inductor.runtime.cache_dir_utils"
    return undocumented(module, "temporary_cache_dir", "Nothing is compiled", SEEN_IN)(folder)


def _printed(*command: str) -> str:
    if shutil.which(command[0]) is None:
        return ""
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}, check=False)
    return done.stdout + done.stderr
