"""A sweep from its description to its table: what passed before is kept, the rest goes to a cluster."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from shutil import rmtree

from kokoro_nb.errors import InputError
from kokoro_nb.reporting.progress import Progress
from kokoro_nb.reporting.runs import FILE
from kokoro_nb.reporting.sweep.cell_result import CellResult, reusable_result
from kokoro_nb.reporting.sweep.cluster import connected, missing_resources, resources_here, worker_resources
from kokoro_nb.reporting.sweep.dispatch import Dispatcher
from kokoro_nb.reporting.sweep.grid import SweepCell, expand
from kokoro_nb.reporting.sweep.spec import SweepSpec
from kokoro_nb.reporting.sweep.sweep_report import write_report
from kokoro_nb.reporting.sweep.sweep_table import write_table
from kokoro_nb.storage import locked, require_own

TABLE, CELLS = "results.parquet", "cells"


def run_sweep(
    spec: SweepSpec,
    out_dir: str | Path,
    workers: int = 2,
    scheduler: str | None = None,
    folder: str | Path | None = None,
) -> list[CellResult]:
    """Execute every cell of a sweep, each in ``<out_dir>/cells/<cell>``, and return how each ended, in order.

    A cell that passed before with the same notebook, parameters, package and versions is kept as it is. In
    ``<out_dir>`` stand the table of all results, ``results.parquet``, and the report, ``report/index.html``.

    Parameters
    ----------
    spec : Spec
        The sweep.
    out_dir : path
        Its folder.
    workers : int
        How many processes of this machine work on it, where no scheduler is given.
    scheduler : str, optional
        Address of a scheduler whose workers do it instead.
    folder : path, optional
        Where the notebooks are; the project's by default.

    Raises
    ------
    InputError
        If a notebook or a parameter is unknown, `workers` is not positive, the folder cannot be used, or no scheduler
        answers, or a worker has another package.
    KeyboardInterrupt
        After what waited was cancelled, and what had ended was written down.
    """
    if workers < 1:
        raise InputError(f"At least one worker is needed, not {workers}.")
    cells = expand(spec, folder)
    root = Path(out_dir).resolve()
    with locked(root, "sweep"):
        for cell in cells:
            require_own(root / CELLS / cell.name, FILE, "a run", "--out")
        found = (reusable_result(root / CELLS / cell.name, cell) for cell in cells)
        ended = {result.cell.name: result for result in found if result is not None}
        waiting = [cell for cell in cells if cell.name not in ended]
        stopped = None
        try:
            for result in _execute(spec, waiting, len(cells), root / CELLS, workers, scheduler):
                ended[result.cell.name] = result
        except KeyboardInterrupt as error:
            stopped = error
        if scheduler is None or stopped is None:  # else a worker may still be at one of them
            _clear(root / CELLS)
        results = [ended.get(cell.name) or _open(cell, root / CELLS) for cell in cells]
        write_table(root / TABLE, results, root / CELLS)
        write_report(root / "report", results, root / CELLS)
        if stopped is not None:
            raise stopped
    return results


def _execute(
    spec: SweepSpec, waiting: Sequence[SweepCell], total: int, root: Path, workers: int, scheduler: str | None
) -> Iterator[CellResult]:
    if not waiting:
        return
    needed = {resource for cell in waiting for resource in cell.resources}
    announce = resources_here(needed) if needed and scheduler is None else {}
    shared = scheduler is None and workers > 1
    threads = max(1, (os.cpu_count() or 1) // workers) if shared else None
    with connected(scheduler, workers, announce) as client:
        progress = Progress({cell.name: None for cell in waiting}, workers)
        try:
            if len(waiting) < total:
                progress.say(f"{total - len(waiting)} cells are unchanged.")
            here = worker_resources(client)
            reasons = {cell.name: missing_resources(cell.resources, here) for cell in waiting}
            for cell in (cell for cell in waiting if reasons[cell.name]):
                skipped = CellResult(cell, "skipped", error=reasons[cell.name])
                progress.end(cell.name, str(skipped))
                yield skipped
            runnable = [cell for cell in waiting if not reasons[cell.name]]
            dispatcher = Dispatcher(client, progress, root, spec.retries, spec.timeout, threads)
            yield from dispatcher.results(runnable)
        finally:
            progress.close()


def _open(cell: SweepCell, root: Path) -> CellResult:
    """Return the result of a cell that was not heard of: it may have come to its end while its worker was stopped."""
    message = "The sweep was interrupted before this cell came to its end."
    return reusable_result(root / cell.name, cell) or CellResult(cell, "interrupted", error=message)


def _clear(root: Path) -> None:
    """Remove what workers that died have left half-written."""
    for draft in root.glob(".*"):
        rmtree(draft, ignore_errors=True)
