"""A Relax module compiled for another machine, in this process or in one of its own.

Run as ``python -m kokoro_nb.backends.tvm.cross_compiling FOLDER`` it is that process: it reads ``request.json`` and
``program.pt2`` there and writes the artefact where the request says.
"""

import sys
from pathlib import Path
from typing import Any

from kokoro_nb.backends.process_request import read_request
from kokoro_nb.backends.tvm.importer import KERNELS, TARGETS, relax_module, target

PROGRAM = "program.pt2"


def compiled(module: Any, machine: str, matmul: bool) -> Any:
    """Compile a Relax module for `machine`; return TVM's executable."""
    import tvm

    goal = target(TARGETS[machine])
    pipeline = tvm.relax.get_default_pipeline(goal) if matmul else _without_matmul(goal)
    return tvm.compile(module, target=goal, relax_pipeline=pipeline)


def write_compiled(built: Any, machine: str, path: Path) -> None:
    """Write the archive of an executable, and the sources of its kernels where there are any."""
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


def _serve(folder: Path) -> None:
    """Answer the request in `folder`."""
    import torch

    request = read_request(folder)
    module = relax_module(torch.export.load(folder / PROGRAM))
    write_compiled(compiled(module, request["machine"], request["matmul"]), request["machine"], Path(request["path"]))


if __name__ == "__main__":
    try:
        _serve(Path(sys.argv[1]))
    except Exception as error:  # the process that waits raises it
        print(f"{type(error).__name__}: {error}")
        sys.exit(1)
