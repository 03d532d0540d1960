"""The cluster that a sweep runs on, this machine's or a scheduler's, and what a worker does: one cell, whole or not."""

import asyncio
import logging
import os
import signal
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kokoro_nb.cache_keys import code_digest
from kokoro_nb.errors import InputError
from kokoro_nb.reporting.logbook import now
from kokoro_nb.reporting.one_notebook import Job, execute, hush
from kokoro_nb.reporting.run_outcome import Limits
from kokoro_nb.reporting.runs import RunRecord, reusable
from kokoro_nb.reporting.sweep.grid import SweepCell
from kokoro_nb.storage import atomic

if TYPE_CHECKING:
    from distributed import Client


PRELOAD = __name__  # sets a worker process up before its first cell
ALIASES = {"qnn": "onnxruntime-qnn"}  # resource -> the backend that shows it
PATIENCE = 10  # seconds that a scheduler, and its first worker, is waited for


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
        wished = sought if wanted is None else [name for name in sought if name in wanted]
        found = [name for name in wished if not absence(BACKENDS[sought[name]])]
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
    if scheduler is not None:
        with _client(scheduler) as client:
            try:
                client.wait_for_workers(1, timeout=PATIENCE)
            except TimeoutError as error:
                raise InputError(
                    f"The scheduler at {scheduler} has no worker; start one with: "
                    f"kokoro-nb worker --scheduler {scheduler}."
                ) from error
            yield client
        return
    from distributed import Client, LocalCluster

    with (
        _own_environment(),
        LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address=None,
            silence_logs=logging.CRITICAL,  # a worker that dies is reported as the reason for another attempt
            memory_limit=0,
            resources=dict(resources),
            preload=[PRELOAD],
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


def worker_resources(client: "Client") -> list[frozenset[str]]:
    """Return what each connected worker announces; nothing where the scheduler does not answer."""
    try:
        workers = client.scheduler_info(n_workers=-1)["workers"]
    except (OSError, TimeoutError):
        return []
    return [frozenset(worker["resources"]) for worker in workers.values()]


def missing_resources(needed: Collection[str], workers: Collection[frozenset[str]]) -> str:
    """Return why no worker can run what needs these resources, ``""`` if one can.

    >>> missing_resources({"cuda"}, [frozenset({"eager", "tvm"}), frozenset()])
    'No connected worker announces cuda; 2 are connected.'
    >>> missing_resources({"eager"}, [frozenset({"eager", "tvm"})])
    ''
    """
    if any(found.issuperset(needed) for found in workers):
        return ""
    if not needed:
        return "No worker is connected."
    count = f"{len(workers)} are" if len(workers) != 1 else "one is"
    return f"No connected worker announces {' and '.join(sorted(needed))}; {count} connected."


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
        pass
    resources = resources_here()
    with _own_environment():
        asyncio.run(work())


@contextmanager
def _client(scheduler: str) -> "Iterator[Client]":
    from distributed import Client

    try:
        client = Client(scheduler, timeout=PATIENCE, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise InputError(f"No scheduler answers at {scheduler}; start one with: dask scheduler.") from error
    with client:
        yield client


@contextmanager
def _own_environment() -> Iterator[None]:
    """Keep Dask from setting how many threads numerical libraries use: the notebooks' kernels would inherit it."""
    import dask

    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    given = {name: os.environ[name] for name in names if name in os.environ}
    with dask.config.set({"distributed.nanny.pre-spawn-environ": given}):
        yield


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
