"""TVM: ``from_exported_program`` and ``tvm.compile``, linked into a library, run on the Relax virtual machine."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from kokoro_nb.backends.artefacts import FileBackend
from kokoro_nb.backends.base import Artifact, Failure, import_failure, on_rung, quietly
from kokoro_nb.backends.exported import Exported
from kokoro_nb.backends.taps import read_taps
from kokoro_nb.backends.tvm.compiled_program import Calls, Place, TvmProgram
from kokoro_nb.backends.tvm.importer import relax_module

TARGET = "llvm"


@dataclass(frozen=True)
class Tvm(FileBackend):
    """TVM on this processor, as its own entry points build it.

    Attributes
    ----------
    fused : bool
        Compile with `tvm.relax.get_default_pipeline` of the target, which folds constants and joins operators into one
        function. Without, with the default of `tvm.compile`, which joins nothing: each operator is one call on the
        virtual machine, so that each can be traced.

    Notes
    -----
    What TVM 0.27 gets wrong is in `kokoro_nb.defects.cases.tvm_defects`, each with a program that shows it.
    """

    fused: bool = True

    file: ClassVar[str] = "model.so"
    packages: ClassVar[tuple[str, ...]] = ("apache-tvm", "apache-tvm-ffi")

    def available(self) -> str | None:
        """Return None if TVM and a compiler to link with are here, else the reason why not, in one sentence."""
        absent = unavailable()
        if absent:
            return absent
        from tvm.support.cc import get_cc

        return None if get_cc() else "TVM links its library with a C compiler, and there is none; install gcc or clang."

    def options(self) -> dict[str, Any]:
        """Return the target and the kind of build."""
        return {"target": TARGET, "fused": self.fused}

    def write(self, exported: Exported, path: Path, seconds: dict[str, float]) -> dict[str, Place] | None:
        """Import, compile and link."""
        calls = None if self.fused else Calls()
        with on_rung("lowered", seconds), quietly():
            built = self.compiled(exported, calls)
        with on_rung("serialised", seconds), quietly():
            built.export_library(str(path))
        return calls.places(exported) if calls else None

    def load(self, artifact: Artifact | Failure) -> TvmProgram:
        """Load the library into a virtual machine."""
        artifact, path = self.loadable(artifact)
        with quietly():
            import tvm

            library = tvm.runtime.load_module(str(path))
            machine = tvm.relax.VirtualMachine(library, tvm.cpu())
        return TvmProgram(self.name, machine, artifact.inputs, artifact.outputs, partial(read_taps, artifact.folder))

    def compiled(self, exported: Exported, calls: Calls | None) -> Any:
        """Return TVM's executable of a program; of a build without joined functions `calls` notes where results are."""
        import tvm
        from tvm import relax

        target = tvm.target.Target(TARGET)
        module = relax_module(exported.program, None if calls is None else calls.observe)
        with tvm.transform.PassContext(instruments=[] if calls is None else [calls.instrument()]):
            pipeline = relax.get_default_pipeline(target) if self.fused else "default"
            return tvm.compile(module, target=target, relax_pipeline=pipeline)


def unavailable() -> str | None:
    """Return None if TVM can be imported, else the reason why not, in one sentence."""
    return import_failure("TVM", "apache-tvm for this platform", "tvm.relax")
