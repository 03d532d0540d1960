"""A sweep from its description to its table: what passed before is kept, the rest goes to a Dask cluster.

Its table is Parquet with a row for each finding of each cell, its report has a page for each cell.
"""

import asyncio
import logging
import signal
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Any

from kokoro_nb.cache_keys import code_digest
from kokoro_nb.errors import InputError
from kokoro_nb.findings import Finding, read_findings
from kokoro_nb.reporting.execute import NotebookResult, Progress, threads
from kokoro_nb.reporting.html import Report
from kokoro_nb.reporting.logbook import FINDINGS
from kokoro_nb.reporting.one_notebook import Job, Limits, execute, hush
from kokoro_nb.reporting.runs import AGAIN, FILE, RunOutcome, RunRecord, read_run_or_damage, reusable, write_run
from kokoro_nb.reporting.selection import SweepCell, SweepSpec, expand, value_text
from kokoro_nb.storage import atomic, locked, require_own

if TYPE_CHECKING:
    from distributed import Client, Future

TABLE, CELLS = "results.parquet", "cells"
ENDED = ("cell", "notebook", "status", "seconds", "error")
FOUND = ("kind", "verdict", "statement", "on_backend", "value", "relation", "limit", "unit", "tap", "reason")
PRELOAD = __name__  # sets a worker process up before its first cell
ALIASES = {"qnn": "onnxruntime-qnn"}  # resource -> the backend that shows it
PATIENCE = 10  # seconds that a scheduler, and its first worker, is waited for


class CellError(Exception):
    """A cell did not pass; its folder says how it ended. Raised, so that Dask tries it again."""


def run_sweep(
    spec: SweepSpec,
    out_dir: str | Path,
    workers: int = 2,
    scheduler: str | None = None,
    folder: str | Path | None = None,
) -> list[NotebookResult]:
    """Execute every cell of a sweep, each in ``<out_dir>/cells/<cell>``, and return how each ended, in order.

    A cell that passed before with the same notebook, parameters, package and versions is kept as it is; one that no
    worker can run is ``skipped``. In ``<out_dir>`` stand the table of all results, ``results.parquet``, and the report,
    ``report/index.html``. Dask tries again what failed as often as the sweep says, and what was on a worker that died.

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
    place = root / CELLS
    with locked(root, "sweep"):
        for cell in cells:
            require_own(place / cell.run.notebook, FILE, "a run", "--out")
        found = [reusable(place / cell.run.notebook, cell.run.key) for cell in cells]
        ended, stopped = {run.notebook: run for run in found if run is not None}, None
        kept, progress = {*ended}, Progress(len(cells) - len(ended))
        try:
            waiting = [cell for cell in cells if cell.run.notebook not in kept]
            for run in _execute(spec, waiting, place, workers, scheduler):
                progress.end(NotebookResult(run))
                ended[run.notebook] = run
        except KeyboardInterrupt as error:
            stopped = error
        finally:
            progress.close()
        if scheduler is None or stopped is None:  # else a worker may still be at one of them
            for draft in place.glob(".*"):  # of workers that died
                rmtree(draft, ignore_errors=True)
        for cell in cells:
            if cell.run.notebook not in ended:
                ended[cell.run.notebook] = _open(cell, place)
        results = [NotebookResult(ended[cell.run.notebook], cell.run.notebook in kept) for cell in cells]
        write_table(root / TABLE, cells, [result.run for result in results], place)
        Report(place, root / "report", titles={cell.run.notebook: cell.label for cell in cells}).close()
        if stopped is not None:
            raise stopped
    return results


def _open(cell: SweepCell, place: Path) -> RunRecord:
    """Return the record of a cell that was not heard of: it may have come to its end while its worker was stopped."""
    return reusable(place / cell.run.notebook, cell.run.key) or _recorded(cell, place, RunOutcome("interrupted"))


def _recorded(cell: SweepCell, place: Path, how: RunOutcome) -> RunRecord:
    """Write the record of a cell that no worker has written one of, and return it."""
    run = cell.run.ended(how)
    with atomic(place / run.notebook) as draft:
        draft.mkdir()
        write_run(draft, run)
    return run


def _execute(
    spec: SweepSpec, waiting: Sequence[SweepCell], place: Path, workers: int, scheduler: str | None
) -> Iterator[RunRecord]:
    if not waiting:
        return
    from distributed import as_completed

    needed = {resource for cell in waiting for resource in cell.resources}
    options: dict[str, Any] = {"package": code_digest(), "limits": Limits(spec.timeout), "retries": spec.retries}
    options["share"] = threads(workers) if scheduler is None else None
    cells: dict[Future, SweepCell] = {}
    with connected(scheduler, workers, resources_here(needed) if needed and scheduler is None else {}) as client:
        here = [frozenset(one["resources"]) for one in client.scheduler_info(n_workers=-1)["workers"].values()]
        able = [cell for cell in waiting if any(map(cell.resources.issubset, here))]
        try:
            for cell in waiting:
                if cell not in able:
                    lacks = f"No connected worker announces {' and '.join(sorted(cell.resources))}"
                    how = RunOutcome("skipped", reason=f"{lacks} (connected: {len(here)}).")
                    yield _recorded(cell, place, how)
            for cell in able:
                given, resources = (cell, place / cell.run.notebook), dict.fromkeys(cell.resources, 1)
                cells[client.submit(run_cell, *given, pure=False, resources=resources, **options)] = cell
            for future in as_completed(cells, loop=client.loop):
                yield _result(cells[future], future, place)
        finally:
            client.cancel(list(cells), force=True)


def _result(cell: SweepCell, future: "Future", place: Path) -> RunRecord:
    """Return how a cell has ended, by the record in its folder where the worker lived to write it."""
    if future.status == "cancelled":  # the scheduler no longer knows of it
        return _open(cell, place)
    error = None if future.status == "finished" else future.exception()
    if isinstance(error, InputError):  # another package, or a folder that cannot be written: so it would go on
        raise error
    if error is not None and not isinstance(error, CellError):  # its workers died, or the folder is not to be read
        how = RunOutcome("crashed", f"{type(error).__name__}: {error}", f"No worker came to its end; {AGAIN}.")
        return _recorded(cell, place, how)
    run = read_run_or_damage(place / cell.run.notebook)
    if run is None or run.key != cell.run.key:
        raise InputError("What a worker wrote is not visible here; choose an --out on a shared file system.")
    return run


def run_cell(cell: SweepCell, folder: Path, package: str, share: int | None, limits: Limits) -> None:
    """Execute a cell on the worker that this is called on.

    The work is done beside `folder`, in one that takes its place at the end. So what a killed worker leaves is never
    read, and if a worker that was given up comes to its end all the same, one of the two results stays, whole.

    Parameters
    ----------
    cell : SweepCell
        What is executed.
    folder : Path
        Where everything is written, on a file system that the sweep sees too.
    package : str
        `code_digest` of the package that the sweep was started with.
    share : int or None
        How many threads numerical libraries may use.
    limits : Limits
        What it may take.

    Raises
    ------
    CellError
        If it did not pass.
    InputError
        If this worker's package is another one, or the folder cannot be written.
    """
    if code_digest() != package:
        what = "The package of a worker is not the one that the sweep was started with"
        raise InputError(f"{what}; update it, and start the sweep again.")
    if reusable(folder, cell.run.key):  # a worker ended between the end of this cell and the return of its result
        return
    with atomic(folder) as draft:
        draft.mkdir()
        run = execute(Job(cell.run.begun(), cell.source, draft, share, limits))
    if run.status != "passed":
        raise CellError(run.message)


def dask_setup(worker: Any) -> None:
    """Set a worker process up; Dask calls it there, on the main thread.

    The terminal's interrupt reaches every process of the group at once: it is left to the sweep, which then ends its
    workers. A handler that does nothing, for what is ignored the kernels would inherit.
    """
    import papermill  # noqa: F401  (now, not as part of the first cell)

    signal.signal(signal.SIGINT, lambda *_: None)
    hush()


def resources_here(wanted: Collection[str] | None = None) -> dict[str, int]:
    """Return the resources that a worker on this machine announces, one of each.

    They are the backends that can export here and run what they exported, ``qnn`` for Qualcomm's among them, and
    ``cuda`` where PyTorch sees such a device.

    Parameters
    ----------
    wanted : collection of str, optional
        Look for these alone; for all by default, which loads every runtime.
    """
    from kokoro_nb.backends.base import absence, quietly

    with quietly():
        import torch

        from kokoro_nb.backends import BACKENDS

        sought = {**{name: name for name in BACKENDS}, **ALIASES}
        wished = sought.keys() if wanted is None else sought.keys() & {*wanted}
        found = [name for name in sorted(wished) if not absence(BACKENDS[sought[name]])]
        if (wanted is None or "cuda" in wanted) and torch.cuda.is_available():
            found.append("cuda")
    return dict.fromkeys(found, 1)


@contextmanager
def connected(scheduler: str | None, workers: int, resources: Mapping[str, int]) -> "Iterator[Client]":
    """Connect to a scheduler, or to a cluster on this machine that lasts as long as the connection.

    Parameters
    ----------
    scheduler : str or None
        Its address, ``tcp://host:port``; None for a cluster of this machine.
    workers : int
        How many processes that cluster has, each with one thread.
    resources : mapping
        What each of them announces.

    Raises
    ------
    InputError
        If no scheduler answers there, or it has no worker.
    """
    options: dict[str, Any] = {}
    if scheduler is None:
        options = {"resources": dict(resources), "preload": [PRELOAD], "memory_limit": 0, "host": "127.0.0.1"}
        options |= {"n_workers": workers, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
        options |= {"silence_logs": logging.CRITICAL}  # a worker that dies is said to be the reason for another attempt
    with _own_environment(), _client(scheduler, **options) as client:
        try:
            if scheduler is not None:
                client.wait_for_workers(1, timeout=PATIENCE)
        except TimeoutError as error:
            start = f"kokoro-nb worker --scheduler {scheduler}"
            raise InputError(f"The scheduler at {scheduler} has no worker; start one with: {start}.") from error
        yield client


def run_worker(scheduler: str) -> None:
    """Be one worker of a scheduler, restarted if its process dies, until it is interrupted or the scheduler ends.

    Raises
    ------
    InputError
        If no scheduler answers there.
    """
    from distributed import Nanny

    async def work() -> None:
        options: dict[str, Any] = {"resources": resources, "preload": [PRELOAD], "silence_logs": logging.WARNING}
        async with Nanny(scheduler, nthreads=1, memory_limit=0, dashboard=False, **options) as nanny:
            print(f"Worker {nanny.worker_address} announces: {', '.join(resources)}", flush=True)
            await nanny.finished()

    with _client(scheduler):
        resources = resources_here()
    with _own_environment():
        asyncio.run(work())


def _client(scheduler: str | None, **options: Any) -> "Client":
    from distributed import Client

    try:
        return Client(scheduler, timeout=PATIENCE, set_as_default=False, **options)
    except (OSError, TimeoutError, ValueError) as error:
        raise InputError(f"No scheduler answers at {scheduler}; start one with: dask scheduler.") from error


def _own_environment() -> Any:
    """Keep Dask from setting how many threads numerical libraries use: the notebooks' kernels would inherit it."""
    import dask

    return dask.config.set({"distributed.nanny.pre-spawn-environ": {}})


def write_table(path: str | Path, cells: Sequence[SweepCell], runs: Sequence[RunRecord], root: str | Path) -> Path:
    """Write the results of a sweep, whole or not at all, and return the path.

    The columns are the parameters of the notebooks, each under its own name or, if that is taken, as
    ``parameter_<name>``; how the cell ended (`ENDED`); and its finding (`FOUND`), null for a cell that left none. A
    figure that is NaN stays NaN, and one that is not there is null.

    Parameters
    ----------
    path : path
        The file.
    cells : sequence of SweepCell
        The cells.
    runs : sequence of RunRecord
        How each ended.
    root : path
        The folder of the cells' folders.
    """
    import pyarrow
    from pyarrow import parquet

    pairs = [(cell, run, one) for cell, run in zip(cells, runs, strict=True) for one in _findings(run, Path(root))]
    columns: dict[str, Any] = {}
    for name in dict.fromkeys(name for run in runs for name in run.parameters):
        column = f"parameter_{name}" if name in (*ENDED, *FOUND) else name
        columns[column] = _parameter(name, [run.parameters.get(name) for _, run, _ in pairs])
    ended = [(run.notebook, cell.notebook, run.status, run.seconds, run.message) for cell, run, _ in pairs]
    found = [tuple(getattr(one, name.removeprefix("on_"), None) for name in FOUND) for _, _, one in pairs]
    for name, values in zip((*ENDED, *FOUND), (*zip(*ended, strict=True), *zip(*found, strict=True)), strict=True):
        kind = pyarrow.float64() if name in ("seconds", "value", "limit") else pyarrow.string()
        columns[name] = pyarrow.array(values, kind)
    with atomic(path) as draft:
        parquet.write_table(pyarrow.table(columns), draft)
    return Path(path)


def _findings(run: RunRecord, root: Path) -> Sequence[Finding | None]:
    try:
        return read_findings(root / run.notebook / FINDINGS)[0] or (None,)
    except InputError:  # there are none; or the cell was stopped while it wrote, and its page says so
        return (None,)


def _parameter(name: str, values: list[Any]) -> Any:
    """Return a column of values as they are, or as text where they are of several kinds, which no column can hold."""
    import pyarrow

    try:
        return pyarrow.array(values)
    except (pyarrow.ArrowException, OverflowError, TypeError):
        return [None if value is None else value_text(name, value) for value in values]
