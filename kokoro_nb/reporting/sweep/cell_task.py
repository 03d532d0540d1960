"""What a worker does: one cell of a sweep, in a folder that appears whole or not at all."""

import logging
import signal
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kokoro_nb.cache_keys import code_digest
from kokoro_nb.errors import InputError
from kokoro_nb.reporting.limits import Limits
from kokoro_nb.reporting.logbook import now
from kokoro_nb.reporting.notebook_process import Job, execute, files_of
from kokoro_nb.reporting.runs import RunRecord, reusable, write_run
from kokoro_nb.reporting.sweep.grid import SweepCell
from kokoro_nb.storage import atomic


@dataclass(frozen=True)
class CellTask:
    """A cell as it is handed to a worker.

    Attributes
    ----------
    cell : Cell
        What is executed.
    folder : Path
        Where everything is written, on a file system that the sweep sees too.
    package : str
        `code_digest` of the package that the sweep was started with.
    topic : str
        What the worker's messages go by.
    threads : int or None
        How many threads numerical libraries may use.
    timeout : float or None
        Seconds after which the cell is stopped.
    """

    cell: SweepCell
    folder: Path
    package: str
    topic: str
    threads: int | None = None
    timeout: float | None = None


def run_cell(task: CellTask) -> RunRecord:
    """Execute a cell on the worker that this is called on, and return its record.

    The work is done in a folder beside `task.folder` that takes its place at the end. So what a killed worker leaves
    is never read, and if a worker that was given up comes to its end all the same, one of the two results stays, whole.

    Raises
    ------
    InputError
        If this worker's package is another one, or the folder cannot be written.
    """
    from distributed import get_worker

    worker, cell = get_worker(), task.cell
    if code_digest() != task.package:
        raise InputError(
            f"The package on {worker.address} is not the one that the sweep was started with; update it, and start "
            "the sweep again."
        )
    kept = reusable(task.folder, cell.key)
    if kept is not None:  # a worker ended between the end of this cell and the return of its result
        return kept
    worker.log_event(task.topic, {"cell": cell.name, "begun": worker.address})
    with atomic(task.folder) as draft:
        draft.mkdir()
        folder = {"out_dir": str(draft)} if cell.takes_out_dir else {}
        run = RunRecord(cell.name, "running", cell.key, cell.parameters, now())
        given, limits = {**cell.parameters, **folder}, Limits(task.timeout)
        job = Job(run, cell.source, draft, given, cell.steps, task.threads, limits)
        run = execute(job, lambda step: worker.log_event(task.topic, {"cell": cell.name, "step": step}))
        run = replace(run, files=files_of(draft, run.notebook))
        write_run(draft, run)
    return run


def dask_setup(worker: Any) -> None:
    """Set a worker process up; Dask calls it there, on the main thread.

    The terminal's interrupt reaches every process of the group at once: it is left to the sweep, which then ends its
    workers. A handler that does nothing, for what is ignored the kernels would inherit.
    """
    import papermill  # noqa: F401  (now, not as part of the first cell)

    signal.signal(signal.SIGINT, lambda *_: None)
    for name in ("papermill", "traitlets", "asyncio"):  # all of their messages are in the record
        logging.getLogger(name).setLevel(logging.CRITICAL)
