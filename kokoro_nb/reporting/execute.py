"""Run notebooks headlessly, several at once if requested; what passed before and has not changed is not run again."""

import json
import math
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from multiprocessing import connection, get_context
from pathlib import Path
from threading import current_thread, main_thread
from typing import Any

from kokoro_nb.errors import InputError, Terminated
from kokoro_nb.reporting.expected_costs import expected_cost, note_cost
from kokoro_nb.reporting.exports_room import exports_bytes, trim_exports
from kokoro_nb.reporting.limits import NONE, Limits
from kokoro_nb.reporting.logbook import now
from kokoro_nb.reporting.needs import needs
from kokoro_nb.reporting.notebook_process import RESERVE, FolderLock, Job, work, write_end
from kokoro_nb.reporting.progress import Progress
from kokoro_nb.reporting.readable import size_text
from kokoro_nb.reporting.run_outcome import RunOutcome, Status, death_outcome, outcome
from kokoro_nb.reporting.runs import FILE, RunRecord, content_key, read_run_or_damage, reusable, write_run
from kokoro_nb.reporting.selection import (
    assign_parameters,
    declared_parameters,
    find_notebooks,
    read_notebook,
    require_kinds,
)
from kokoro_nb.reporting.versions import project_folder
from kokoro_nb.storage import atomic, clear_drafts, locked, require_own

PATIENCE = 20.0  # seconds that a worker is given to shut its kernel down
RESERVED = 2**16  # bytes that are kept free for the last record
FIRST = ("01", "02", "03", "05", "04")  # they say whether an export works; the longer of the last two before the other
_STOPS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}


@dataclass(frozen=True)
class NotebookResult:
    """The result of one notebook: its record, and whether that of an earlier execution was kept."""

    run: RunRecord
    unchanged: bool

    def __str__(self) -> str:
        if self.unchanged:
            return f"unchanged (executed at {self.run.started})"
        took = "" if self.run.seconds is None else f" in {self.run.seconds:.1f} s"
        message = self.run.message.strip().splitlines()
        return f"{self.run.status}{took}" + (f": {message[0]}" if message else "")


def run_notebooks(
    selection: Sequence[str],
    parameters: Mapping[str, Any],
    jobs: int,
    out_dir: str | Path,
    fresh: bool = False,
    folder: str | Path | None = None,
    limits: Limits = NONE,
    on_change: Callable[[], object] = lambda: None,
    memory_in_all: float | None = None,
) -> list[NotebookResult]:
    """Execute notebooks, each in ``<out_dir>/<name>``, and return the result of each.

    A notebook that fails does not stop the others. Each works in its own results folder; one that lies outside any
    checkout of this project, in the folder where it lies. One that passed before with the same cells, parameters,
    package and versions is kept as it is.

    Parameters
    ----------
    selection : sequence of str
        Numbers, names or paths; empty for all of the project.
    parameters : mapping
        Passed to every notebook that declares them. ``out_dir`` is always the notebook's own folder.
    jobs : int
        How many run at once; fewer, while there is no memory for one more with these weights.
    out_dir : path
        The folder of all runs.
    fresh : bool
        Whether to execute again what has not changed.
    folder : path, optional
        Where the notebooks are; the project's by default.
    limits : Limits, optional
        What each notebook may take of time and memory; as much as there is by default.
    on_change : callable, optional
        Called before the first notebook begins and after each has ended.
    memory_in_all : float, optional
        GB that those running at once may be expected to hold together; by default what is free, where the weights are
        so large that it matters.

    Raises
    ------
    InputError
        If a notebook or a parameter is unknown, a notebook cannot be read, `jobs` is not positive, `out_dir` cannot be
        used, or there is not the memory or the disk that these weights need.
    KeyboardInterrupt
        After the running notebooks were stopped and recorded as interrupted, or as terminated.
    """
    if jobs < 1:
        raise InputError(f"At least one job is needed, not {jobs}.")
    if "out_dir" in parameters:
        raise InputError("The parameter 'out_dir' is set for each notebook; choose the folder with --out instead.")
    paths = find_notebooks(selection, folder)
    places = {path.stem: _own_place(path.resolve().parent, folder) for path in paths}
    notebooks = {path.stem: read_notebook(path) for path in paths}
    declared = {name: declared_parameters(notebook) for name, notebook in notebooks.items()}
    given = assign_parameters(declared, parameters)
    for name, notebook in notebooks.items():
        require_kinds(notebook, given[name], name)
    sources = {path.stem: str(path.resolve()) for path in paths if places[path.stem] is not None}
    root = Path(out_dir).resolve()
    outcomes, waiting = {}, []
    with locked(root, "run") as lock:
        runs = {
            name: RunRecord(
                *(name, "running", content_key(notebook, given[name]), given[name], now()),
                source=sources.get(name, ""),
            )
            for name, notebook in notebooks.items()
        }
        for name in notebooks:
            clear_drafts(root / name)
        found = {name: None if fresh else reusable(root / name, run.key) for name, run in runs.items()}
        needed = needs({name: runs[name] for name, kept in found.items() if kept is None})
        needed.require_disk(root)
        room = needed.room(None if memory_in_all is None else memory_in_all * 1e9)
        threads = max(1, (os.cpu_count() or 1) // jobs) if jobs > 1 else None
        progress = Progress({name: expected_cost(run).seconds for name, run in runs.items()}, jobs)
        if room is not None:
            progress.say(needed.statement(jobs, room))
        try:
            for name, notebook in notebooks.items():
                kept = found[name]
                if kept is not None:
                    outcomes[name] = NotebookResult(kept, True)
                    progress.end(name, str(outcomes[name]))
                    continue
                passed = {**given[name], **({"out_dir": str(root / name)} if "out_dir" in declared[name] else {})}
                require_own(root / name, FILE, "a run", "--out")
                cells = len(notebook.cells) + bool(passed)  # papermill adds a cell with the parameters
                source = json.dumps(notebook)
                about = (runs[name], source, root / name, passed, cells, threads, limits, places[name])
                waiting.append(Job(*about, memory=needed.each[name], seconds=needed.seconds.get(name)))
            on_change()
            for run in _run_all(waiting, jobs, room, progress, FolderLock(lock), on_change):
                outcomes[run.notebook] = NotebookResult(run, False)
            if removed := trim_exports():
                progress.say(f"Removed the oldest exports from the cache: {size_text(removed)}.")
            if needed.large:
                progress.say(
                    f"The exports in the cache take {size_text(exports_bytes())}; kokoro-nb clean removes them."
                )
        finally:
            progress.close()
    return [outcomes[name] for name in notebooks]


def _own_place(place: Path, folder: str | Path | None) -> Path | None:
    """Return the folder that a notebook lies in if that is neither `folder` nor in a checkout of this project."""
    ours = project_folder(place) is not None or (folder is not None and place == Path(folder).resolve())
    return None if ours else place


def _run_all(
    jobs: Sequence[Job],
    at_once: int,
    room: float | None,
    progress: Progress,
    hold: FolderLock,
    on_change: Callable[[], object],
) -> list[RunRecord]:
    spawn = get_context("spawn")  # a fork would copy the parent's threads and locks
    waiting, done = _in_turn(jobs, at_once, room), dict[str, RunRecord]()
    running: dict[Any, tuple[Any, Job]] = {}  # receiving end of the pipe -> process and job
    cause: Status = "abandoned"
    try:
        while waiting or running:
            while len(running) < at_once:
                chosen = _next(waiting, [job for _, job in running.values()], room)
                if chosen is None:
                    break
                waiting.remove(chosen)
                job = _begin(chosen)
                receiver, sender = spawn.Pipe(duplex=False)
                process = spawn.Process(target=work, args=(job, sender, hold), name=job.run.notebook)
                with _stops_held():
                    process.start()
                sender.close()  # so that the end of the worker is the end of the pipe
                running[receiver] = (process, job)
                progress.begin(job.run.notebook, job.cells)
            ready = connection.wait(list(running), timeout=1.0)
            progress.refresh()
            for pipe in [pipe for pipe in running if pipe in ready]:
                process, job = running[pipe]
                name = job.run.notebook
                try:
                    said = pipe.recv()
                except (EOFError, OSError):  # in the midst of a message, where it was killed
                    process.join()
                    del running[pipe]
                    if name not in done:
                        said = f"The worker process died with exit code {process.exitcode}."
                        done[name] = _ended(job, death_outcome("worker process", process.exitcode, said, starved=False))
                    note_cost(done[name])
                    progress.end(name, str(NotebookResult(done[name], False)))
                    with suppress(InputError):  # no room for a page now: the notebooks go on
                        on_change()
                else:
                    if isinstance(said, RunRecord):
                        done[name] = said
                    else:
                        progress.cell(name, said)
    except KeyboardInterrupt as stop:
        cause = "terminated" if isinstance(stop, Terminated) else "interrupted"
        raise
    finally:
        with _deaf():
            _stop(list(running.values()), outcome(cause))
    return list(done.values())


def _in_turn(jobs: Sequence[Job], at_once: int, room: float | None) -> list[Job]:
    """Return the jobs as they are to begin: what says whether an export works first, then the longest.

    Where the largest do not fit side by side, they begin first, and small ones are kept for them.
    """
    largest = sorted(jobs, key=lambda job: -job.memory)
    if room is not None and sum(job.memory for job in largest[:at_once]) > room:
        return largest
    return sorted(jobs, key=_rank)


def _rank(job: Job) -> tuple[int, float]:
    number = job.run.notebook[:2]
    if number in FIRST:
        return FIRST.index(number), 0.0
    return len(FIRST), -math.inf if job.seconds is None else -job.seconds


def _next(waiting: Sequence[Job], running: Sequence[Job], room: float | None) -> Job | None:
    """Return which is to begin now: beside others the first that there is memory for; None if there is none such."""
    if not waiting or not running or room is None:
        return waiting[0] if waiting else None
    left = room - sum(job.memory for job in running)
    return next((job for job in waiting if job.memory <= left), None)


def _begin(job: Job) -> Job:
    job = replace(job, run=replace(job.run, started=now()))
    with atomic(job.folder) as draft:  # takes the place of an earlier execution, whole
        draft.mkdir()
        (draft / RESERVE).write_bytes(os.urandom(RESERVED))
        write_run(draft, job.run)
    return job


def _stop(running: Sequence[tuple[Any, Job]], how: RunOutcome) -> None:
    for process, _ in running:
        process.terminate()
    for process, job in running:
        process.join(PATIENCE)
        if process.is_alive():
            process.kill()
            process.join()
        _ended(job, how)


def _ended(job: Job, how: RunOutcome) -> RunRecord:
    """Return the record that the worker left of the notebook's end; write one where it did not live to see it."""
    run = read_run_or_damage(job.folder)
    if run is not None and run.status not in ("running", "abandoned", "terminated", "damaged"):
        return run
    run = job.run.ended(how, run.seconds if run else None)
    write_end(job.folder, run)
    return run


@contextmanager
def _stops_held() -> Iterator[None]:
    """Keep interrupts from a process that is just starting, until it knows what to do with them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _STOPS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _deaf() -> Iterator[None]:
    """Let nothing interrupt what comes: an impatient second Ctrl-C would leave workers behind."""
    if current_thread() is not main_thread():  # where no signal is handled
        yield
        return
    before = {number: signal.signal(number, signal.SIG_IGN) for number in _STOPS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
