"""TVM: `torch.export` to Relax, compiled for this processor into a shared library, run on the Relax virtual machine."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from kokoro_nb.backends.artefacts import FileBackend
from kokoro_nb.backends.base import Artifact, Failure, import_failure, on_rung, quietly
from kokoro_nb.backends.exported import Exported
from kokoro_nb.backends.taps import TapMap, read_taps
from kokoro_nb.backends.tvm import targets, tvm_passes
from kokoro_nb.backends.tvm.compiled_program import Calls, Place, TvmProgram
from kokoro_nb.backends.tvm.importer import relax_module
from kokoro_nb.backends.tvm.schedule import Decision, plan
from kokoro_nb.backends.tvm.threads import use_threads_of_pytorch
from kokoro_nb.time_spent import timed


@dataclass(frozen=True)
class Tvm(FileBackend):
    """TVM on this processor.

    Attributes
    ----------
    fused : bool
        Join operators into one function; see `tvm_passes.passes`.
    scheduled : bool
        Reorder the loops by our own pass; TVM alone leaves them as they are written.

    Notes
    -----
    What TVM 0.27 does by itself, and our converters mend, is in `tvm_converters` and in its tests. Not mended:

    - Instance norm, group norm and batch norm without running statistics compute the variance in one pass, as
      E[x²] - E[x]² in float32, which loses all digits where the mean is large beside the deviation, and can be below 0:
      then the channel is NaN. The patch ``two_pass_norm`` writes instance norm out. Layer norm takes two passes.
    - ``x * 0`` and ``0 / x`` with a 0 that is written as a number are 0, whatever `x` is.
    - Argmax, sorting, median and max pooling pass over NaN.
    - A fused function that compares a value with itself, or with the opposite of such a comparison, does not see NaN.
    """

    fused: bool = True
    scheduled: bool = True

    file: ClassVar[str] = "model.so"
    form: ClassVar[str] = "Relax"
    packages: ClassVar[tuple[str, ...]] = ("apache-tvm", "apache-tvm-ffi")

    def available(self) -> str | None:
        """Return None if TVM and a compiler to link with are here, else the reason why not, in one sentence."""
        absent = unavailable()
        if absent:
            return absent
        from tvm.support.cc import get_cc

        return None if get_cc() else "TVM links its library with a C compiler, and there is none; install gcc or clang."

    def options(self) -> dict[str, Any]:
        """Return the processor and the kind of build."""
        target = None if unavailable() else targets.this_processor()
        return {"target": target, "fused": self.fused, "scheduled": self.scheduled}

    def write(self, exported: Exported, path: Path, seconds: dict[str, float]) -> dict[str, Place] | None:
        """Import, compile and link."""
        calls = None if self.fused else Calls()
        with on_rung("lowered", seconds), quietly():
            built = self._compiled(exported, self.fused, self.scheduled, calls)
        with on_rung("serialised", seconds), quietly():
            built.export_library(str(path))
        return calls.places(exported) if calls else None

    @timed("load")
    def load(self, artifact: Artifact | Failure) -> TvmProgram:
        """Load the library into a virtual machine."""
        artifact, path = self.loadable(artifact)
        use_threads_of_pytorch()
        with quietly():
            import tvm

            library = tvm.runtime.load_module(str(path))
            machine = tvm.relax.VirtualMachine(library, tvm.cpu())
        return TvmProgram(self.name, machine, artifact.inputs, artifact.outputs, partial(read_taps, artifact.folder))

    def graph(self, exported: Exported) -> TvmProgram:
        """Return the Relax module, each of its operators a function of plain loops, run without a file."""
        calls = Calls()
        with quietly():
            import tvm

            machine = tvm.relax.VirtualMachine(self._compiled(exported, False, False, calls), tvm.cpu())

        def taps() -> TapMap:
            return TapMap(exported.specification.operators, calls.places(exported))

        return TvmProgram(self.name, machine, exported.inputs, exported.outputs, taps)

    def plan(self, exported: Exported) -> tuple[Decision, ...]:
        """Return what our pass does with each function of loops, by the work in it, largest first."""
        with quietly():
            target = targets.target(targets.this_processor())
            before = [*tvm_passes.legalisation(), *(tvm_passes.fusion() if self.fused else [])]
            with target:
                return plan(tvm_passes.applied(before, relax_module(exported), target), target)

    def _compiled(self, exported: Exported, fused: bool, scheduled: bool, calls: Calls | None) -> Any:
        use_threads_of_pytorch()  # it computes what is constant
        target = targets.target(targets.this_processor())
        if calls is None:
            return tvm_passes.compiled(relax_module(exported), target, fused, scheduled)
        module = relax_module(exported, observer=calls.observe)
        return tvm_passes.compiled(module, target, fused, scheduled, calls.listing())


def unavailable() -> str | None:
    """Return None if TVM can be imported, else the reason why not, in one sentence."""
    return import_failure("TVM", "apache-tvm for this platform", "tvm.relax")
