"""What a worker does: one cell of a sweep, in a folder that appears whole or not at all."""

import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kokoro_nb.cache_keys import code_digest
from kokoro_nb.errors import InputError
from kokoro_nb.reporting.limits import Limits
from kokoro_nb.reporting.logbook import now
from kokoro_nb.reporting.one_notebook import Job, execute, hush
from kokoro_nb.reporting.runs import RunRecord, reusable
from kokoro_nb.reporting.sweep.grid import SweepCell
from kokoro_nb.storage import atomic


@dataclass(frozen=True)
class CellTask:
    """A cell as it is handed to a worker.

    Attributes
    ----------
    cell : SweepCell
        What is executed.
    folder : Path
        Where everything is written, on a file system that the sweep sees too.
    package : str
        `code_digest` of the package that the sweep was started with.
    threads : int or None
        How many threads numerical libraries may use.
    timeout : float or None
        Seconds after which the cell is stopped.
    """

    cell: SweepCell
    folder: Path
    package: str
    threads: int | None = None
    timeout: float | None = None


class CellError(Exception):
    """A cell did not pass; its folder says how it ended. Raised, so that Dask tries it again."""


def run_cell(task: CellTask) -> None:
    """Execute a cell on the worker that this is called on.

    The work is done in a folder beside `task.folder` that takes its place at the end. So what a killed worker leaves
    is never read, and if a worker that was given up comes to its end all the same, one of the two results stays, whole.

    Raises
    ------
    CellError
        If it did not pass.
    InputError
        If this worker's package is another one, or the folder cannot be written.
    """
    cell = task.cell
    if code_digest() != task.package:
        raise InputError(
            "The package of a worker is not the one that the sweep was started with; update it, and start the sweep "
            "again."
        )
    if reusable(task.folder, cell.key):  # a worker ended between the end of this cell and the return of its result
        return
    with atomic(task.folder) as draft:
        draft.mkdir()
        folder = {"out_dir": str(draft)} if cell.takes_out_dir else {}
        run = RunRecord(cell.name, "running", cell.key, cell.parameters, now())
        job = Job(run, cell.source, draft, {**cell.parameters, **folder}, task.threads, Limits(task.timeout))
        run = execute(job)
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
