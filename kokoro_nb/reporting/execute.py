"""Run notebooks side by side with a bar of progress: what has not changed is kept, and a stop loses nothing.

Memory that large weights need is checked before the work begins; saved exports have limited room on the disk.
"""

import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kokoro_nb.errors import InputError, Terminated, signals_handled
from kokoro_nb.reporting.fragments import size_text
from kokoro_nb.reporting.one_notebook import NONE, RESERVE, Job, Limits, execute, hush
from kokoro_nb.reporting.runs import FILE, RunOutcome, RunRecord, content_key, read_run_or_damage, reusable, write_run
from kokoro_nb.reporting.selection import assign_parameters, find_notebooks, read_notebook, require_kinds
from kokoro_nb.reporting.versions import project_folder
from kokoro_nb.storage import atomic, bytes_in, cache_dir, clear_drafts, locked, require_own

SMALL = ("mini", "narrow")
SMALL_BYTES, FULL_BYTES = 16e6, 327e6  # of the bundled voice, and of the published model: its parameters in float32
# Bytes of memory for each byte of the weights: a diagnosis of the published size held 3.8 GB, a delivery 2.4 GB, the
# largest of the notebooks, 19, 5.3 GB
DIAGNOSIS, DELIVERY, NOTEBOOK = 13.0, 9.0, 20.0
ROOMS = ("artefacts", "delivered", "client_programs", "repair", "inductor")  # made again by whoever needs them
LIMIT, VARIABLE = 20.0, "KOKORO_NB_CACHE_GB"
YOUNG = 3600.0  # seconds: somebody may be about to load it


def require_memory(work: str, weights: str, times: float, smaller: str = "--weights mini") -> int:
    """Return how many such pieces of work there is memory for at once; for small weights as many as one likes.

    Parameters
    ----------
    work : str
        What is begun, with its article.
    weights : str
        As in the notebooks.
    times : float
        Bytes of memory that it takes for each byte of the weights.
    smaller : str
        Options by which smaller weights are chosen.

    Raises
    ------
    InputError
        If there is not the memory to do it once.
    """
    import psutil

    if _bytes(weights) <= 2 * SMALL_BYTES:
        return sys.maxsize
    needed, free = times * _bytes(weights), int(psutil.virtual_memory().available)
    if free < needed:
        memory = f"up to {size_text(round(needed))} of memory, and {size_text(free)} are free"
        remedy = f"end other programs, or take smaller weights: {smaller}"
        raise InputError(f"With these weights {work} takes {memory}; {remedy}.")
    return int(free // needed)


def _bytes(weights: str) -> float:
    """Return how large weights are; what is no path and not made here is taken for a hub's."""
    path = Path(weights)
    if weights in SMALL:
        return SMALL_BYTES
    if path.is_dir():
        return sum(each.stat().st_size for each in path.glob("*.*") if each.is_file())
    return path.stat().st_size if path.is_file() else FULL_BYTES


def trim_exports(limit: float | None = None, young: float = YOUNG) -> int:
    """Remove the oldest exports until the rest takes no more than `limit`, and return how many bytes were removed.

    Parameters
    ----------
    limit : float, optional
        In GB (10**9 bytes); by default ``$KOKORO_NB_CACHE_GB``, or 20.
    young : float
        What was made within so many seconds stays; an hour by default.
    """
    allowed = 1e9 * (limit if limit is not None else _limit())
    exports = sorted(_exports(), key=lambda one: one[2])
    left, removed, now = sum(size for _, size, _ in exports), 0, time.time()
    for path, size, made in exports:
        if left - removed <= allowed or now - made < young:
            break
        shutil.rmtree(path, ignore_errors=True)
        removed += size
    return removed


def exports_since(begun: float) -> int:
    """Return how many exports in the cache were made since a time, in seconds of the epoch, by any process."""
    return sum(made >= begun for path, _, made in _exports() if path.parent.name in (ROOMS[0], ROOMS[2]))


def _limit() -> float:
    try:
        return float(os.environ.get(VARIABLE) or LIMIT)
    except ValueError:
        return LIMIT


def _exports() -> Iterator[tuple[Path, int, float]]:
    """Yield the folder of each export, its bytes, and when it was made."""
    for room in ROOMS:
        for folder in (cache_dir() / room).glob("*/"):
            try:
                yield folder, bytes_in(folder), folder.stat().st_mtime
            except OSError:  # removed meanwhile
                continue


class Progress:
    """One bar for all notebooks, with the cells that those running are at; without a terminal, a line as each begins.

    Parameters
    ----------
    notebooks : int
        How many there are.
    """

    def __init__(self, notebooks: int) -> None:
        from tqdm import tqdm

        self._at: dict[str, str] = {}
        style = "{desc} {bar} {n_fmt}/{total_fmt} {elapsed}{postfix}"
        self._bar = tqdm(total=notebooks, desc="all notebooks", bar_format=style, leave=False, disable=None)

    def begin(self, name: str, cells: int) -> None:
        """Show that the notebook `name` of so many cells has begun."""
        if self._bar.disable:
            self.say(f"{name}: running, {cells} cells")

    def cell(self, name: str, index: int, cells: int) -> None:
        """Show that the cell at `index` has begun, so that those before it are done."""
        self._at[name] = f"{index}/{cells}"

    def end(self, result: "NotebookResult") -> None:
        """Show that a notebook is done, and how it ended."""
        self._at.pop(result.run.notebook, None)
        self.say(f"{result.run.notebook}: {result}")
        self._bar.update()

    def refresh(self) -> None:
        """Show the time that has gone by, and the cells."""
        self._bar.set_postfix({**self._at})  # others may begin meanwhile

    def say(self, line: str) -> None:
        """Show one line above the bar."""
        self._bar.write(line, file=sys.stderr)
        sys.stderr.flush()

    def close(self) -> None:
        """Take the bar away."""
        self._bar.close()


RESERVED = 2**16  # bytes that are kept free for the last record
FIRST = ("01", "02", "03", "05", "04")  # they say whether an export works; the longer of the last two before the other
_STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class NotebookResult:
    """The result of one notebook: its record, and whether that of an earlier execution was kept."""

    run: RunRecord
    unchanged: bool = False

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
) -> list[NotebookResult]:
    """Execute notebooks, each in ``<out_dir>/<name>``, and return the result of each.

    A notebook that fails does not stop the others. Each works in its own results folder; one that lies outside any
    checkout of this project, in the folder where it lies. One that passed before with the same cells, parameters,
    package and versions is kept as it is. What says whether an export works begins first, then what took longest.

    Parameters
    ----------
    selection : sequence of str
        Numbers, names or paths; empty for all of the project.
    parameters : mapping
        Passed to every notebook that declares them. ``out_dir`` is always the notebook's own folder.
    jobs : int
        How many run at once; fewer, where there is no memory for so many with these weights.
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
    given = assign_parameters(notebooks, parameters)
    for name, notebook in notebooks.items():
        require_kinds(notebook, given[name], name)
    root = Path(out_dir).resolve()
    with locked(root, "run"):
        outcomes, runs, begun = {}, {}, time.time()
        for path in paths:
            name, source = path.stem, str(path.resolve()) if places[path.stem] else ""
            clear_drafts(root / name)
            key = content_key(notebooks[name], given[name])
            runs[name] = RunRecord(name, "running", key, given[name], source=source)
            if not fresh and (kept := reusable(root / name, key)) is not None:
                outcomes[name] = NotebookResult(kept, True)
        waiting = sorted(runs.keys() - outcomes.keys(), key=lambda name: _rank(root / name))
        if waiting:
            there = require_memory("a notebook", str(parameters.get("weights", "mini")), NOTEBOOK, "-p weights mini")
            jobs = min(there, jobs)
        progress, work = Progress(len(runs)), []
        try:
            for result in outcomes.values():
                progress.end(result)
            for name in waiting:
                require_own(root / name, FILE, "a run", "--out")
                work.append(Job(runs[name], notebooks[name], root / name, threads(jobs), limits, places[name]))
            on_change()
            for run in _run_all(work, jobs, progress, on_change):
                outcomes[run.notebook] = NotebookResult(run)
            if waiting:
                progress.say(f"New in the cache since the run began: {exports_since(begun)} exports.")
            if removed := trim_exports():
                progress.say(f"Removed the oldest exports from the cache: {size_text(removed)}.")
        finally:
            progress.close()
    return [outcomes[name] for name in notebooks]


def threads(jobs: int) -> int | None:
    """Return how many threads each of so many notebooks may use; None for as many as it likes, where it is one."""
    return max(1, (os.cpu_count() or 1) // jobs) if jobs > 1 else None


def _own_place(place: Path, folder: str | Path | None) -> Path | None:
    """Return the folder that a notebook lies in if that is neither `folder` nor in a checkout of this project."""
    ours = project_folder(place) is not None or (folder is not None and place == Path(folder).resolve())
    return None if ours else place


def _rank(folder: Path) -> tuple[float, float, str]:
    """Return what sorts the notebook of a folder: those of `FIRST`, those never measured, then what took longest."""
    if folder.name[:2] in FIRST:
        return FIRST.index(folder.name[:2]), 0.0, ""
    run = read_run_or_damage(folder)
    known = run is not None and run.seconds is not None and run.status in ("passed", "checks failed")
    return len(FIRST) + known, -(run.seconds or 0.0) if run is not None and known else 0.0, folder.name


def _run_all(jobs: Sequence[Job], at_once: int, progress: Progress, on_change: Callable[[], object]) -> list[RunRecord]:
    """Execute jobs in this order, and return the record of each."""
    hush()
    stops: list[RunOutcome] = []

    def work(job: Job) -> RunRecord:
        name, cells = job.run.notebook, len(job.source.cells) + bool(job.parameters)
        progress.begin(name, cells)
        job = replace(job, run=job.run.begun())
        with atomic(job.folder) as draft:  # takes the place of an earlier execution, whole
            draft.mkdir()
            (draft / RESERVE).write_bytes(os.urandom(RESERVED))
            write_run(draft, job.run)
        return execute(job, lambda cell: progress.cell(name, cell, cells), lambda: stops[0] if stops else None)

    pool = ThreadPoolExecutor(at_once)  # papermill waits in each for a kernel, which is a process
    done: list[RunRecord] = []
    try:
        running = {pool.submit(work, job) for job in jobs}
        while running:
            ended, running = wait(running, 1.0, FIRST_COMPLETED)
            progress.refresh()
            for run in (each.result() for each in ended):
                done.append(run)
                progress.end(NotebookResult(run))
                with suppress(InputError):  # no room for a page now: the notebooks go on
                    on_change()
    except BaseException as error:
        ctrl_c = RunOutcome("interrupted" if isinstance(error, KeyboardInterrupt) else "abandoned")
        stops.append(RunOutcome("terminated") if isinstance(error, Terminated) else ctrl_c)
        raise
    finally:
        with signals_handled(_STOPS, signal.SIG_IGN):  # an impatient second Ctrl-C would leave kernels behind
            pool.shutdown(cancel_futures=True)
    return done
