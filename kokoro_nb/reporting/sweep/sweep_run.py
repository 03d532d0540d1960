"""A sweep from its description to its table: what passed before is kept, the rest goes to a cluster.

Its table is Parquet with a row for each finding of each cell, its report has a page for each cell.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Any

from kokoro_nb.cache_keys import code_digest
from kokoro_nb.errors import InputError
from kokoro_nb.findings import Finding, read_findings
from kokoro_nb.reporting.cells import Body
from kokoro_nb.reporting.html import Page, read_page
from kokoro_nb.reporting.logbook import now
from kokoro_nb.reporting.progress import Progress
from kokoro_nb.reporting.report_files import write_pages
from kokoro_nb.reporting.runs import FILE, RunRecord, read_run_or_damage, reusable
from kokoro_nb.reporting.sweep.cluster import (
    CellError,
    CellTask,
    connected,
    missing_resources,
    resources_here,
    run_cell,
    worker_resources,
)
from kokoro_nb.reporting.sweep.grid import CellResult, SweepCell, SweepSpec, expand, value_text
from kokoro_nb.storage import atomic, locked, require_own

if TYPE_CHECKING:
    from distributed import Future

TABLE, CELLS = "results.parquet", "cells"
ENDED = ("cell", "notebook", "status", "seconds", "error")
FOUND = ("kind", "verdict", "statement", "on_backend", "value", "relation", "limit", "unit", "tap", "reason")


def run_sweep(
    spec: SweepSpec,
    out_dir: str | Path,
    workers: int = 2,
    scheduler: str | None = None,
    folder: str | Path | None = None,
) -> list[CellResult]:
    """Execute every cell of a sweep, each in ``<out_dir>/cells/<cell>``, and return how each ended, in order.

    A cell that passed before with the same notebook, parameters, package and versions is kept as it is. In
    ``<out_dir>`` stand the table of all results, ``results.parquet``, and the report, ``report/index.html``. Dask tries
    again what failed as often as the sweep says, and what was on a worker that died.

    Parameters
    ----------
    spec : SweepSpec
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
        ended = {cell.name: kept for cell in cells if (kept := _kept(cell, root / CELLS)) is not None}
        waiting = [cell for cell in cells if cell.name not in ended]
        stopped = None
        try:
            for result in _execute(spec, waiting, len(ended), root / CELLS, workers, scheduler):
                ended[result.cell.name] = result
        except KeyboardInterrupt as error:
            stopped = error
        if scheduler is None or stopped is None:  # else a worker may still be at one of them
            for draft in (root / CELLS).glob(".*"):  # of workers that died
                rmtree(draft, ignore_errors=True)
        results = [ended.get(cell.name) or _open(cell, root / CELLS) for cell in cells]
        write_table(root / TABLE, results, root / CELLS)
        write_report(root / "report", results, root / CELLS)
        if stopped is not None:
            raise stopped
    return results


def _kept(cell: SweepCell, root: Path) -> CellResult | None:
    """Return the result of an earlier execution if it passed with this very content, else None."""
    run = reusable(root / cell.name, cell.key)
    return None if run is None else CellResult(cell, "passed", run, unchanged=True)


def _open(cell: SweepCell, root: Path) -> CellResult:
    """Return the result of a cell that was not heard of: it may have come to its end while its worker was stopped."""
    message = "The sweep was interrupted before this cell came to its end."
    return _kept(cell, root) or CellResult(cell, "interrupted", error=message)


def _execute(
    spec: SweepSpec, waiting: Sequence[SweepCell], kept: int, root: Path, workers: int, scheduler: str | None
) -> Iterator[CellResult]:
    if not waiting:
        return
    from distributed import as_completed

    needed = {resource for cell in waiting for resource in cell.resources}
    announce = resources_here(needed) if needed and scheduler is None else {}
    shared = scheduler is None and workers > 1
    threads = max(1, (os.cpu_count() or 1) // workers) if shared else None
    package = code_digest()
    with connected(scheduler, workers, announce) as client:
        progress = Progress(len(waiting))
        cells = {}
        try:
            if kept:
                progress.say(f"{kept} cells are unchanged.")
            here = worker_resources(client)
            reasons = [(cell, missing_resources(cell.resources, here)) for cell in waiting]
            for cell, reason in reasons:
                if reason:
                    skipped = CellResult(cell, "skipped", error=reason)
                    progress.end(cell.name, str(skipped))
                    yield skipped
            for cell in (cell for cell, reason in reasons if not reason):
                task = CellTask(cell, root / cell.name, package, threads, spec.timeout)
                needs = dict.fromkeys(cell.resources, 1)
                cells[client.submit(run_cell, task, retries=spec.retries, resources=needs, pure=False)] = cell
            for future in as_completed(cells, loop=client.loop):
                result = _result(cells[future], future, root)
                progress.end(result.cell.name, str(result))
                yield result
        finally:
            client.cancel(list(cells), force=True)
            progress.close()


def _result(cell: SweepCell, future: "Future", root: Path) -> CellResult:
    """Return how a cell has ended, by the record in its folder where the worker lived to write it."""
    if future.status == "cancelled":  # the scheduler no longer knows of it
        return _open(cell, root)
    error = None if future.status == "finished" else future.exception()
    if isinstance(error, InputError):  # another package, or a folder that cannot be written: so it would go on
        raise error
    if error is not None and not isinstance(error, CellError):  # its workers died, or the folder is not to be read
        return CellResult(cell, "failed", error=f"{type(error).__name__}: {error}")
    run = read_run_or_damage(root / cell.name)
    if run is None or run.key != cell.key:
        message = "What a worker wrote is not visible here; choose an --out on a shared file system."
        return CellResult(cell, "failed", error=message)
    return CellResult(cell, run.status, run, run.message)


def write_table(path: str | Path, results: Sequence[CellResult], root: str | Path) -> Path:
    """Write the results of a sweep, whole or not at all, and return the path.

    The columns are the parameters of the notebooks, each under its own name or, if that is taken, as
    ``parameter_<name>``; how the cell ended (`ENDED`); and its finding (`FOUND`), null for a cell that left none. A
    figure that is NaN stays NaN, and one that is not there is null.

    Parameters
    ----------
    path : path
        The file.
    results : sequence of CellResult
        A cell each.
    root : path
        The folder of the cells' folders.
    """
    import pyarrow
    from pyarrow import parquet

    columns: dict[str, list[Any]] = {}
    names = list(dict.fromkeys(name for result in results for name in result.cell.parameters))
    rows = [(result, finding) for result in results for finding in _findings(result, Path(root))]
    for name in names:
        column = f"parameter_{name}" if name in (*ENDED, *FOUND) else name
        columns[column] = _parameter(name, [result.cell.parameters.get(name) for result, _ in rows])
    columns["cell"] = [result.cell.name for result, _ in rows]
    columns["notebook"] = [result.cell.notebook for result, _ in rows]
    columns |= {name: [getattr(result, name) for result, _ in rows] for name in ENDED[2:]}
    columns |= {name: [_found(finding)[name] for _, finding in rows] for name in FOUND}
    numbers = dict.fromkeys(("seconds", "value", "limit"), pyarrow.float64())
    fixed = {name: numbers.get(name, pyarrow.string()) for name in (*ENDED, *FOUND)}
    table = pyarrow.table({name: pyarrow.array(values, fixed.get(name)) for name, values in columns.items()})
    with atomic(path) as draft:
        parquet.write_table(table, draft)
    return Path(path)


def _findings(result: CellResult, root: Path) -> Sequence[Finding | None]:
    try:
        found = () if result.run is None else read_findings(root / result.cell.name / "findings.json")[0]
    except InputError:  # there are none; or the cell was stopped while it wrote, and its page says so
        found = ()
    return found or (None,)


def _found(finding: Finding | None) -> dict[str, Any]:
    return {name: getattr(finding, name.removeprefix("on_"), None) for name in FOUND}


def _parameter(name: str, values: list[Any]) -> list[Any]:
    """Return a column of values as they are, or as text where they are of several kinds, which no column can hold."""
    import pyarrow

    try:
        pyarrow.array(values)
    except (pyarrow.ArrowException, OverflowError, TypeError):
        return [None if value is None else value_text(name, value) for value in values]
    return values


@dataclass(frozen=True)
class SkippedPage(Page):
    """A cell that no worker could run."""

    @property
    def state(self) -> str:
        """How it ended, in a word."""
        return "skipped"


def write_report(out_dir: str | Path, results: Sequence[CellResult], root: str | Path) -> Path:
    """Render every cell of a sweep, those that were not executed too, and an index; return the path of the index.

    Parameters
    ----------
    out_dir : path
        Where ``<cell>.html`` and ``index.html`` are written.
    results : sequence of CellResult
        A cell each.
    root : path
        The folder of the cells' folders.
    """
    return write_pages([_page(result, Path(root)) for result in results], Path(out_dir))


def _page(result: CellResult, root: Path) -> Page:
    cell = result.cell
    if result.run is not None:
        page = read_page(result.run, root / cell.name)
        return replace(page, body=replace(page.body, title=cell.label))
    body, about = Body(title=cell.label), {"weights": cell.parameters.get("weights", "not recorded")}
    if result.status == "skipped":
        finding = Finding("runs", "skip", f"{cell.label} is executed.", str(about["weights"]), reason=result.error)
        run = RunRecord(cell.name, "passed", cell.key, cell.parameters, now())  # it stopped nowhere: it did not begin
        return SkippedPage(run, (finding,), about, body)
    run = RunRecord(cell.name, result.status, cell.key, cell.parameters, now(), error=result.error)
    return Page(run, (), about, body)
