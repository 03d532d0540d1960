"""Run notebooks headlessly, several at once where asked for; what passed before and has not changed is kept."""

import json
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing import connection, get_context
from pathlib import Path
from typing import Any

from kokoro_nb.errors import InputError
from kokoro_nb.reporting.logbook import now
from kokoro_nb.reporting.progress import Progress
from kokoro_nb.reporting.runs import FILE, Run, Status, content_key, read_run, reusable, write_run
from kokoro_nb.reporting.selection import (
    assign_parameters,
    declared_parameters,
    find_notebooks,
    notebooks_folder,
    read_notebook,
)
from kokoro_nb.reporting.worker import Job, work
from kokoro_nb.storage import atomic, held, require_own

PATIENCE = 20.0  # seconds that a worker is given to shut its kernel down


@dataclass(frozen=True)
class Outcome:
    """How one notebook fared: its record, and whether an earlier execution was kept."""

    run: Run
    unchanged: bool

    def __str__(self) -> str:
        if self.unchanged:
            return f"unchanged (executed at {self.run.started})"
        took = "" if self.run.seconds is None else f" in {self.run.seconds:.1f} s"
        error = self.run.error.strip().splitlines()
        return f"{self.run.status}{took}" + (f": {error[0]}" if error else "")


def run_notebooks(
    selection: Sequence[str],
    parameters: Mapping[str, Any],
    jobs: int,
    out_dir: str | Path,
    fresh: bool = False,
    folder: str | Path | None = None,
) -> list[Outcome]:
    """Execute notebooks, each in ``<out_dir>/<name>``, and return how each fared.

    A notebook that fails does not stop the others. One that passed before with the same cells, parameters, package and
    versions is kept as it is.

    Parameters
    ----------
    selection : sequence of str
        Numbers or names; empty for all.
    parameters : mapping
        Passed to every notebook that declares them. ``out_dir`` is always the notebook's own folder.
    jobs : int
        How many run at once.
    out_dir : path
        The folder of all runs.
    fresh : bool
        Whether to execute again what has not changed.
    folder : path, optional
        Where the notebooks are; the project's by default.

    Raises
    ------
    InputError
        If a notebook or a parameter is unknown, a notebook cannot be read, `jobs` is not positive, or `out_dir` cannot
        be used.
    KeyboardInterrupt
        After the running notebooks were stopped and recorded as interrupted.
    """
    if jobs < 1:
        raise InputError(f"At least one job is needed, not {jobs}.")
    if "out_dir" in parameters:
        raise InputError("The parameter 'out_dir' is set for each notebook; choose the folder with --out instead.")
    paths = find_notebooks(notebooks_folder() if folder is None else folder, selection)
    notebooks = {path.stem: read_notebook(path) for path in paths}
    declared = {name: declared_parameters(notebook) for name, notebook in notebooks.items()}
    given = assign_parameters(declared, parameters)
    root = Path(out_dir).resolve()
    threads = max(1, (os.cpu_count() or 1) // jobs) if jobs > 1 else None
    outcomes, waiting = {}, []
    with held(root, "run"):
        progress = Progress(len(notebooks))
        try:
            for name, notebook in notebooks.items():
                key = content_key(notebook, given[name])
                kept = None if fresh else reusable(root / name, key)
                if kept is not None:
                    outcomes[name] = Outcome(kept, True)
                    progress.end(name, str(outcomes[name]))
                    continue
                passed = {**given[name], **({"out_dir": str(root / name)} if "out_dir" in declared[name] else {})}
                run = Run(name, "running", key, given[name], now())
                require_own(root / name, FILE, "a run", "--out")
                cells = len(notebook.cells) + bool(passed)  # papermill adds a cell with the parameters
                waiting.append(Job(run, json.dumps(notebook), root / name, passed, cells, threads))
            for run in _run_all(waiting, jobs, progress):
                outcomes[run.notebook] = Outcome(run, False)
        finally:
            progress.close()
    return [outcomes[name] for name in notebooks]


def _run_all(jobs: Sequence[Job], at_once: int, progress: Progress) -> list[Run]:
    spawn = get_context("spawn")  # a fork would copy the parent's threads and locks
    waiting, done = list(jobs), []
    running: dict[Any, tuple[Any, Job]] = {}  # receiving end of the pipe -> process and job
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                job = _begin(waiting.pop(0))
                receiver, sender = spawn.Pipe(duplex=False)
                process = spawn.Process(target=work, args=(job, sender), name=job.run.notebook)
                with _interrupts_held():
                    process.start()
                sender.close()  # so that the end of the worker is the end of the pipe
                running[receiver] = (process, job)
                progress.begin(job.run.notebook, job.cells)
            ready = connection.wait(list(running), timeout=1.0)
            progress.refresh()
            for pipe in [pipe for pipe in running if pipe in ready]:
                process, job = running[pipe]
                try:
                    progress.cell(job.run.notebook, pipe.recv())
                except EOFError:
                    process.join()
                    del running[pipe]
                    died = f"The worker process died with exit code {process.exitcode}."
                    done.append(_ended(job, "failed", died))
                    progress.end(job.run.notebook, str(Outcome(done[-1], False)))
    finally:
        for process, _ in running.values():
            process.terminate()
        for process, job in running.values():
            process.join(PATIENCE)
            if process.is_alive():
                process.kill()
                process.join()
            _ended(job, "interrupted", "")
    return done


def _begin(job: Job) -> Job:
    job = replace(job, run=replace(job.run, started=now()))
    with atomic(job.folder) as draft:  # takes the place of an earlier execution, whole
        draft.mkdir()
        write_run(draft, job.run)
    return job


def _ended(job: Job, status: Status, error: str) -> Run:
    """Return the record that the worker left; write one with `status` where it did not live to do so."""
    run = read_run(job.folder)
    if run is not None and run.status != "running":
        return run
    run = replace(job.run, status=status, error=error)
    write_run(job.folder, run)
    return run


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Keep interrupts from a process that is just starting, until it knows what to do with them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
