"""Cells handed to a cluster, and each of them followed to its end: retries, dead workers, workers that have gone."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from kokoro_nb.cache_keys import code_digest
from kokoro_nb.errors import InputError
from kokoro_nb.reporting.progress import Progress
from kokoro_nb.reporting.runs import RunRecord, read_run_or_damage
from kokoro_nb.reporting.sweep.cell_result import CellResult, save_attempts
from kokoro_nb.reporting.sweep.cell_task import CellTask, run_cell
from kokoro_nb.reporting.sweep.cluster import missing_resources, worker_resources
from kokoro_nb.reporting.sweep.grid import SweepCell

if TYPE_CHECKING:
    from distributed import Client

DEATHS = 3  # so many workers may die of one cell
TICK = 1.0  # seconds between two looks at the clock
LOOK = 5.0  # seconds between two looks at who is connected
GRACE = 60.0  # seconds within which a worker that has gone may come back


@dataclass
class _Attempts:
    """The attempts at one cell so far."""

    cell: SweepCell
    future: Any = None
    begun: int = 0
    worker: str | None = None
    running: bool = False
    failures: int = 0
    deaths: int = 0
    earlier: list[str] = field(default_factory=list)

    def result(self, status: Any, run: RunRecord | None, error: str) -> CellResult:
        return CellResult(self.cell, status, run, error, self.worker, self.begun, tuple(self.earlier))


class Dispatcher:
    """The cells that a cluster is working on.

    Parameters
    ----------
    client : distributed.Client
        The connection to the cluster.
    progress : Progress
        Where progress is shown.
    root : Path
        The folder of the cells' folders.
    retries : int
        How often a cell that failed is executed again.
    timeout : float or None
        Seconds after which a cell is stopped.
    threads : int or None
        How many threads numerical libraries may use.
    """

    def __init__(
        self,
        client: "Client",
        progress: Progress,
        root: Path,
        retries: int = 0,
        timeout: float | None = None,
        threads: int | None = None,
    ) -> None:
        self._client, self._progress, self._root, self._retries = client, progress, root, retries
        self._limits: dict[str, Any] = {"timeout": timeout, "threads": threads}
        self._topic = f"sweep-{uuid4().hex}"
        self._package = code_digest()
        self._heard: SimpleQueue[Any] = SimpleQueue()  # messages of workers, and cells whose future is done
        self._open: dict[str, _Attempts] = {}  # by name, those that have not ended
        self._stranded_since: float | None = None
        client.subscribe_topic(self._topic, lambda event: self._heard.put(event[1]))

    def results(self, cells: Sequence[SweepCell]) -> Iterator[CellResult]:
        """Hand out `cells` and yield the result of each as it ends; what waits is cancelled if the caller stops.

        Raises
        ------
        InputError
            If a worker has another package than the sweep was started with, or cannot write the folder.
        """
        self._open = {cell.name: _Attempts(cell) for cell in cells}
        try:
            for attempts in self._open.values():
                self._submit(attempts)
            looked = time.monotonic()
            while self._open:
                try:
                    ended = self._hear(self._heard.get(timeout=TICK))
                except Empty:
                    ended = None
                    self._progress.refresh()
                if ended is not None:
                    yield self._ended(ended)
                if time.monotonic() - looked > LOOK:
                    yield from map(self._ended, self._given_up())
                    looked = time.monotonic()
        finally:
            self._client.cancel([attempts.future for attempts in self._open.values()], force=True)

    def _submit(self, attempts: _Attempts) -> None:
        cell = attempts.cell
        task = CellTask(cell, self._root / cell.name, self._package, self._topic, **self._limits)
        needs = dict.fromkeys(cell.resources, 1)
        attempts.future = self._client.submit(
            run_cell, task, key=f"{cell.name}-{uuid4().hex}", resources=needs, pure=False
        )
        attempts.future.add_done_callback(lambda future: self._heard.put({"cell": cell.name, "done": future}))

    def _hear(self, message: dict[str, Any]) -> CellResult | None:
        attempts = self._open.get(message["cell"])
        if attempts is None:  # a worker that was given up has come back
            return None
        if "done" in message:
            return self._outcome(attempts) if message["done"] is attempts.future else None
        if "begun" in message:
            self._begin(attempts, message["begun"])
        else:
            self._progress.cell(attempts.cell.name, message["step"])
        return None

    def _begin(self, attempts: _Attempts, worker: str) -> None:
        self._cut_short(attempts)
        attempts.begun, attempts.worker, attempts.running = attempts.begun + 1, worker, True
        if attempts.begun == 1:
            self._progress.begin(attempts.cell.name, attempts.cell.steps)
        else:
            self._progress.say(f"{attempts.cell.name}: attempt {attempts.begun}, for: {attempts.earlier[-1]}")

    def _cut_short(self, attempts: _Attempts) -> None:
        """Note that the worker on which the cell was running has died, if one was."""
        if attempts.running:
            attempts.running, attempts.deaths = False, attempts.deaths + 1
            attempts.earlier.append(f"The worker {attempts.worker} ended while it ran the cell.")

    def _outcome(self, attempts: _Attempts) -> CellResult | None:
        """Return how a cell has ended; None where it is tried again."""
        from distributed import KilledWorker

        if attempts.future.status not in ("finished", "error"):
            return attempts.result("interrupted", None, "The scheduler no longer knows of it.")
        error = attempts.future.exception()
        if isinstance(error, KilledWorker):
            self._cut_short(attempts)
            if attempts.deaths < DEATHS:
                self._submit(attempts)
                return None
            return attempts.result("failed", None, attempts.earlier.pop())
        if isinstance(error, InputError):  # another package, or a folder that cannot be written: so it would go on
            raise error
        attempts.running = False
        run = None if error else attempts.future.result()
        message = f"{type(error).__name__}: {error}" if run is None else run.message
        if run is not None and not self._seen(run):
            run = None
            message = f"What {attempts.worker} wrote is not visible here; choose an --out on a shared file system."
        elif run is not None and run.status == "passed":
            return attempts.result("passed", run, "")
        if attempts.failures == self._retries:
            return attempts.result("failed" if run is None else run.status, run, message)
        attempts.failures += 1
        attempts.earlier.append(message)
        self._submit(attempts)
        return None

    def _seen(self, run: RunRecord) -> bool:
        record = read_run_or_damage(self._root / run.notebook)
        return record is not None and (record.key, record.started) == (run.key, run.started)

    def _given_up(self) -> list[CellResult]:
        """Return what no connected worker has been able to run for some time."""
        workers = worker_resources(self._client)
        reasons = [(attempts, missing_resources(attempts.cell.resources, workers)) for attempts in self._open.values()]
        stranded = [attempts.result("interrupted", None, reason) for attempts, reason in reasons if reason]
        if not stranded:
            self._stranded_since = None
        elif self._stranded_since is None:
            self._stranded_since = time.monotonic()
        elif time.monotonic() - self._stranded_since > GRACE:
            self._client.cancel([self._open[result.cell.name].future for result in stranded], force=True)
            return stranded
        return []

    def _ended(self, result: CellResult) -> CellResult:
        del self._open[result.cell.name]
        self._progress.end(result.cell.name, str(result))
        return save_attempts(self._root / result.cell.name, result)
