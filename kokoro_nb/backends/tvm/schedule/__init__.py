"""TVM with its loops reordered by a pass of this package, for processors: blocks in registers, vectors, all cores.

TVM has such rules for graphics processors (DLight) and searches for schedules otherwise (MetaSchedule); for processors
its rules are two, for a vector times a matrix and for norms, and leave convolutions as they are written.
"""

import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from kokoro_nb.backends.base import Artifact
from kokoro_nb.backends.tvm import Tvm, TvmProgram
from kokoro_nb.backends.tvm.schedule.operators import COLUMNS, TILE, legalisations

_SPREADS = 0  # IterVar.DataPar
WORTH_SHARING = 2**14  # elements; a loop with fewer is over before another core has begun


def scheduled(module: Any) -> Any:
    """Return a module, legalised and fused or not, with its functions of loops scheduled; it is not touched itself.

    A function whose loops TVM cannot reorder is in it unchanged.
    """
    from tvm import ir, s_tir, tirx

    functions = dict(module.functions_items())
    for name, function in functions.items():
        if isinstance(function, tirx.PrimFunc) and isinstance(function.body, s_tir.SBlockRealize):
            with suppress(s_tir.ScheduleError):
                functions[name] = scheduled_alone(function)
    return ir.IRModule(functions, attrs=module.attrs, global_infos=module.global_infos)


def scheduled_alone(function: Any) -> Any:
    """Return a function of loops with these scheduled.

    A copy is scheduled because TVM 0.27 does so in place even where another function has the same loops, as the one has
    that it was made from.

    Raises
    ------
    tvm.s_tir.ScheduleError
        If TVM cannot reorder the loops.
    """
    from tvm import s_tir

    schedule = s_tir.Schedule(s_tir.renew_defs(function))
    root = schedule.get_sblock("root")
    for block in schedule.get_child_blocks(root):
        _inline(schedule, block)
    for block in schedule.get_child_blocks(root):
        (_in_registers if TILE in schedule.get(block).annotations else _share)(schedule, block)
    return schedule.mod["main"].with_attr("tirx.is_scheduled", True)


def _inline(schedule: Any, block: Any) -> None:
    """Inline a block into the one that reads it, but for copies, sums, and results of the function."""
    about, results = schedule.get(block), schedule.mod["main"].params
    stays = len(schedule.get_consumers(block)) != 1 or about.name_hint == COLUMNS
    whole = all(axis.iter_type == _SPREADS for axis in about.iter_vars)
    if whole and not stays and not any(one.source.same_as(result) for one in about.writes for result in results):
        schedule.compute_inline(block)


def _axes(schedule: Any, block: Any) -> tuple[list[Any], list[Any]]:
    """Return the loops of a block that spread over its results, and those that sum."""
    loops, axes = list(schedule.get_loops(block)), schedule.get(block).iter_vars
    spread = [loop for loop, axis in zip(loops, axes, strict=False) if axis.iter_type == _SPREADS]
    return spread, loops[len(spread) :]


def _share(schedule: Any, block: Any) -> None:
    """Fuse the outer loops of a block, but for the last, of which LLVM makes vectors; have cores share what is long."""
    from tvm import tirx

    spread, summed = _axes(schedule, block)
    sizes = [schedule.get(loop).extent for loop in (*spread, *summed)]
    outer = spread if summed else spread[:-1] or spread
    if outer and all(isinstance(size, tirx.IntImm) for size in sizes):
        fused = schedule.fuse(*outer)
        if prod(map(int, sizes)) >= WORTH_SHARING:
            schedule.parallel(fused)


def _in_registers(schedule: Any, block: Any) -> None:
    """Compute sums block by block, each block in registers until it is complete."""
    height, vectors, lanes = map(int, schedule.get(block).annotations[TILE])
    (*batch, row, column), summed = _axes(schedule, block)
    rows, row = schedule.split(row, [None, height])
    columns, vector, lane = schedule.split(column, [None, vectors, lanes])
    schedule.reorder(*batch, columns, rows, *summed, row, vector, lane)
    outer = schedule.fuse(*batch, columns, rows)
    schedule.parallel(outer)
    kept = schedule.cache_write(block, 0, "local")
    schedule.reverse_compute_at(kept, outer)
    _unrolled(schedule, row, vector, lane)
    _unrolled(schedule, *schedule.get_loops(schedule.decompose_reduction(block, summed[0]))[-3:])
    schedule.vectorize(schedule.split(schedule.get_loops(kept)[-1], [None, lanes])[1])


def _unrolled(schedule: Any, row: Any, vector: Any, lane: Any) -> None:
    schedule.unroll(row)
    schedule.unroll(vector)
    schedule.vectorize(lane)


CHOSEN = ("TVM_NUM_THREADS", "OMP_NUM_THREADS")  # which TVM reads, in this order, when it computes for the first time


@dataclass(frozen=True)
class TvmScheduled(Tvm):
    """TVM with joined operators, whose loops a pass of this package reorders for this processor.

    TVM leaves the loops of a model that was not tuned as they are written. In their place come loops in blocks, on
    vectors and on all cores, and a sine and cosine that vectors can compute; all other passes are those of
    `tvm.relax.get_default_pipeline`. Results differ from those of the backend ``tvm`` by rounding.
    """

    def options(self) -> dict[str, Any]:
        """Return the processor, with the number of its cores: the generated code spreads its loops so."""
        from tvm.target.codegen import llvm_get_system_cpu

        return {"target": {"kind": "llvm", "mcpu": llvm_get_system_cpu(), "num-cores": os.cpu_count() or 1}}

    def opened(self, artifact: Artifact, path: Path) -> TvmProgram:
        """Load the library into a virtual machine, which computes on as many threads as PyTorch."""
        use_threads_of_pytorch()
        return super().opened(artifact, path)

    def pipeline(self, target: Any) -> Any:
        """Return TVM's passes for a processor, with operators of ours, and loops reordered before memory is planned."""
        import tvm
        from tvm.relax.backend.cpu_generic import pipeline as passes

        use_threads_of_pytorch()  # TVM computes what is constant

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
