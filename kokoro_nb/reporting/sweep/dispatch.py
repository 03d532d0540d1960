"""Cells handed to a cluster, and each of them followed to its end: retries, dead workers, workers that have gone."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from kokoro_nb.errors import InputError
from kokoro_nb.reporting.progress import Progress
from kokoro_nb.reporting.runs import Run, found_run, package_digest
from kokoro_nb.reporting.sweep.cluster import absent, announced
from kokoro_nb.reporting.sweep.grid import Cell
from kokoro_nb.reporting.sweep.result import Result, keep
from kokoro_nb.reporting.sweep.task import Order, perform

if TYPE_CHECKING:
    from distributed import Client

DEATHS = 3  # so many workers may die of one cell
TICK = 1.0  # seconds between two looks at the clock
LOOK = 5.0  # seconds between two looks at who is connected
GRACE = 60.0  # seconds within which a worker that has gone may come back


@dataclass(frozen=True)
class Terms:
    """What holds for all cells: the folder of their folders, how often and how long each is tried, and on what.

    Attributes
    ----------
    root : Path
        The folder of the cells' folders.
    retries : int
        How often a cell that failed is executed again.
    timeout : float or None
        Seconds after which a cell is stopped.
    threads : int or None
        How many threads numerical libraries may use.
    """

    root: Path
    retries: int = 0
    timeout: float | None = None
    threads: int | None = None


@dataclass
class _Course:
    """What has become of a cell so far."""

    cell: Cell
    future: Any = None
    begun: int = 0
    worker: str | None = None
    running: bool = False
    failures: int = 0
    deaths: int = 0
    earlier: list[str] = field(default_factory=list)

    def result(self, status: Any, run: Run | None, error: str) -> Result:
        return Result(self.cell, status, run, error, self.worker, self.begun, tuple(self.earlier))


class Dispatch:
    """The cells that a cluster is working on.

    Parameters
    ----------
    client : distributed.Client
        The connection to the cluster.
    terms : Terms
        What holds for all cells.
    progress : Progress
        Where it is shown.
    """

    def __init__(self, client: "Client", terms: Terms, progress: Progress) -> None:
        self._client, self._terms, self._progress = client, terms, progress
        self._topic = f"sweep-{uuid4().hex}"
        self._package = package_digest()
        self._heard: SimpleQueue[Any] = SimpleQueue()  # messages of workers, and cells whose future is done
        self._courses: dict[str, _Course] = {}  # by name, those that have not ended
        self._stranded_since: float | None = None
        client.subscribe_topic(self._topic, lambda event: self._heard.put(event[1]))

    def results(self, cells: Sequence[Cell]) -> Iterator[Result]:
        """Hand out `cells` and yield the result of each as it ends; what waits is cancelled if the caller stops.

        Raises
        ------
        InputError
            If a worker has another package than the sweep was begun with, or cannot write the folder.
        """
        self._courses = {cell.name: _Course(cell) for cell in cells}
        try:
            for course in self._courses.values():
                self._submit(course)
            looked = time.monotonic()
            while self._courses:
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
            self._client.cancel([course.future for course in self._courses.values()], force=True)

    def _submit(self, course: _Course) -> None:
        cell, terms = course.cell, self._terms
        folder = terms.root / cell.name
        order = Order(cell, folder, self._package, self._topic, terms.threads, terms.timeout)
        needs = dict.fromkeys(cell.resources, 1)
        course.future = self._client.submit(
            perform, order, key=f"{cell.name}-{uuid4().hex}", resources=needs, pure=False
        )
        course.future.add_done_callback(lambda future: self._heard.put({"cell": cell.name, "done": future}))

    def _hear(self, message: dict[str, Any]) -> Result | None:
        course = self._courses.get(message["cell"])
        if course is None:  # a worker that was given up has come back
            return None
        if "done" in message:
            return self._outcome(course) if message["done"] is course.future else None
        if "begun" in message:
            self._begin(course, message["begun"])
        else:
            self._progress.cell(course.cell.name, message["step"])
        return None

    def _begin(self, course: _Course, worker: str) -> None:
        self._cut_short(course)
        course.begun, course.worker, course.running = course.begun + 1, worker, True
        if course.begun == 1:
            self._progress.begin(course.cell.name, course.cell.steps)
        else:
            self._progress.say(f"{course.cell.name}: attempt {course.begun}, for: {course.earlier[-1]}")

    def _cut_short(self, course: _Course) -> None:
        """Note that the worker on which the cell was running has died, if one was."""
        if course.running:
            course.running, course.deaths = False, course.deaths + 1
            course.earlier.append(f"The worker {course.worker} ended while it ran the cell.")

    def _outcome(self, course: _Course) -> Result | None:
        """Return how a cell has ended; None where it is tried again."""
        from distributed import KilledWorker

        if course.future.status not in ("finished", "error"):
            return course.result("interrupted", None, "The scheduler no longer knows of it.")
        error = course.future.exception()
        if isinstance(error, KilledWorker):
            self._cut_short(course)
            if course.deaths < DEATHS:
                self._submit(course)
                return None
            return course.result("failed", None, course.earlier.pop())
        if isinstance(error, InputError):  # another package, or a folder that cannot be written: so it would go on
            raise error
        course.running = False
        run = None if error else course.future.result()
        told = f"{type(error).__name__}: {error}" if run is None else run.told
        if run is not None and not self._seen(run):
            run, told = None, f"What {course.worker} wrote is not seen here; choose an --out on a common file system."
        elif run is not None and run.status == "passed":
            return course.result("passed", run, "")
        if course.failures == self._terms.retries:
            return course.result("failed" if run is None else run.status, run, told)
        course.failures += 1
        course.earlier.append(told)
        self._submit(course)
        return None

    def _seen(self, run: Run) -> bool:
        record = found_run(self._terms.root / run.notebook)
        return record is not None and (record.key, record.started) == (run.key, run.started)

    def _given_up(self) -> list[Result]:
        """Return what no connected worker has been able to run for some time."""
        workers = announced(self._client)
        reasons = [(course, absent(course.cell.resources, workers)) for course in self._courses.values()]
        stranded = [course.result("interrupted", None, reason) for course, reason in reasons if reason]
        if not stranded:
            self._stranded_since = None
        elif self._stranded_since is None:
            self._stranded_since = time.monotonic()
        elif time.monotonic() - self._stranded_since > GRACE:
            self._client.cancel([self._courses[result.cell.name].future for result in stranded], force=True)
            return stranded
        return []

    def _ended(self, result: Result) -> Result:
        del self._courses[result.cell.name]
        self._progress.end(result.cell.name, str(result))
        return keep(self._terms.root / result.cell.name, result)
