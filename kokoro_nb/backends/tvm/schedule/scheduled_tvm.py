"""TVM with its loops reordered by this package: the same importer and operators, other loops, for speed."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kokoro_nb.backends.base import Artifact, Failure
from kokoro_nb.backends.exported import Exported
from kokoro_nb.backends.tvm import Calls, Tvm, TvmProgram
from kokoro_nb.backends.tvm.importer import relax_module
from kokoro_nb.backends.tvm.schedule import scheduled
from kokoro_nb.backends.tvm.schedule.operators import legalisations

CHOSEN = ("TVM_NUM_THREADS", "OMP_NUM_THREADS")  # which TVM reads, in this order, when it computes for the first time


@dataclass(frozen=True)
class TvmScheduled(Tvm):
    """TVM with joined operators, whose loops a pass of this package reorders for this processor.

    TVM leaves the loops of a model that was not tuned as they are written. In their place come loops in blocks, on
    vectors and on all cores, and a sine and cosine that vectors can compute; all other passes are those of
    `tvm.relax.get_default_pipeline`. Results differ from those of the backend ``tvm`` by rounding.
    """

    def options(self) -> dict[str, Any]:
        """Return the processor."""
        return {"target": _this_processor()}

    def write(self, exported: Exported, path: Path, seconds: dict[str, float]) -> None:
        """Import, compile and link."""
        use_threads_of_pytorch()  # TVM computes what is constant
        super().write(exported, path, seconds)

    def load(self, artifact: Artifact | Failure) -> TvmProgram:
        """Load the library into a virtual machine, which computes on as many threads as PyTorch."""
        use_threads_of_pytorch()
        return super().load(artifact)

    def compiled(self, exported: Exported, calls: Calls | None) -> Any:
        """Return TVM's executable of a program."""
        import tvm

        target = tvm.target.Target(_this_processor())
        with target:
            return tvm.compile(relax_module(exported.program), target=target, relax_pipeline=_pipeline(target))


def _this_processor() -> dict[str, Any]:
    """Return the target of this processor, with the number of its cores: the generated code spreads its loops so."""
    from tvm.target.codegen import llvm_get_system_cpu

    return {"kind": "llvm", "mcpu": llvm_get_system_cpu(), "num-cores": os.cpu_count() or 1}


def _pipeline(target: Any) -> Any:
    """Return TVM's passes for a processor, with operators of ours, and loops reordered before memory is planned."""
    import tvm
    from tvm.relax.backend.cpu_generic import pipeline as passes

    @tvm.transform.module_pass(opt_level=0)
    def reorder(module: Any, _context: Any) -> Any:
        return scheduled(module)

    return tvm.transform.Sequential(
        [
            *passes.library_dispatch_passes(target),
            tvm.relax.transform.LegalizeOps(legalisations(target)),
            *passes.legalize_passes(target),
            reorder,
            *passes.dataflow_lower_passes(target),
            *passes.finalize_passes(target),
        ]
    )


def use_threads_of_pytorch() -> None:
    """Have TVM compute on as many threads as PyTorch, unless the environment says how many; before it computes.

    On x86 TVM halves the number of processors, as if every two were one core with two threads (`MaxConcurrency` in its
    `threading_backend.cc`). Where PyTorch is not loaded, it is as many as there are processors.
    """
    if not any(name in os.environ for name in CHOSEN):
        torch = sys.modules.get("torch")
        os.environ[CHOSEN[0]] = str(torch.get_num_threads() if torch else os.cpu_count() or 1)
