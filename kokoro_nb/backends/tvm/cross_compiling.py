"""A Relax module compiled for another machine, in this process or in one of its own."""

import sys
from pathlib import Path
from typing import Any

from kokoro_nb.backends.tvm import targets
from kokoro_nb.backends.tvm.importer import relax_module

TARGETS: dict[str, dict[str, Any]] = {
    "aarch64-linux": targets.ARM_LINUX,
    "arm64-macos": targets.ARM_MACOS,
    "metal": {"kind": "metal"},
    "opencl": {"kind": "opencl"},
}
KERNELS = {"metal": "kernels.metal", "opencl": "kernels.cl"}  # the file of the sources of the kernels


def compile_for(module: Any, machine: str, matmul: bool, path: Path) -> None:
    """Compile a Relax module for `machine` and write the archive and the sources of its kernels."""
    import tvm

    target = targets.target(TARGETS[machine])
    pipeline = tvm.relax.get_default_pipeline(target) if matmul else _without_matmul(target)
    built = tvm.compile(module, target=target, relax_pipeline=pipeline)
    built.export_library(str(path))
    if machine in KERNELS:
        path.with_name(KERNELS[machine]).write_text(_kernels(built.mod, machine), encoding="utf-8")


def _without_matmul(target: Any) -> Any:
    """Return TVM's default pipeline for graphics processors without `dlight.gpu.Matmul`."""
    from tvm.ir.transform import Sequential
    from tvm.relax import transform
    from tvm.relax.backend import gpu_generic
    from tvm.s_tir import dlight

    rules = (dlight.gpu.GEMV(), dlight.gpu.Reduction(), dlight.gpu.GeneralReduction(), dlight.gpu.Fallback())
    return Sequential(
        [
            *gpu_generic.library_dispatch_passes(target),
            transform.LegalizeOps(),
            transform.AnnotateTIROpPattern(),
            transform.FoldConstant(),
            transform.FuseOps(),
            transform.FuseTIR(),
            dlight.ApplyDefaultSchedule(*rules),
            *gpu_generic.dataflow_lower_passes(target),
            *gpu_generic.finalize_passes(target),
        ]
    )


def _kernels(module: Any, kind: str) -> str:
    """Return the sources of the kernels in a compiled module and those that it imports."""
    own = [module.inspect_source()] if module.kind == kind else []
    return "\n".join([*own, *(_kernels(part, kind) for part in module.imports)])


def main() -> None:
    """Compile in a process of its own: PROGRAM.pt2 MACHINE FILE.tar [matmul].

    An error is printed, and the exit status is 1.
    """
    import torch

    saved, machine, path, *matmul = sys.argv[1:]
    try:
        compile_for(relax_module(torch.export.load(saved)), machine, bool(matmul), Path(path))
    except Exception as error:  # the process that waits raises it
        print(f"{type(error).__name__}: {error}")
        sys.exit(1)
