"""One notebook executed through papermill, in a process and a kernel of its own."""

import json
import logging
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import takewhile
from multiprocessing import parent_process
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Event, Thread
from typing import IO, TYPE_CHECKING, Any

from kokoro_nb.errors import InputError
from kokoro_nb.findings import read_findings
from kokoro_nb.reporting.limits import NONE, Limits, enforced, processor_seconds
from kokoro_nb.reporting.logbook import FINDINGS, OUT_DIR
from kokoro_nb.reporting.run_outcome import RunOutcome, death_outcome, error_outcome, oom_kills, outcome
from kokoro_nb.reporting.runs import FILE, SECONDS, RunRecord, read_profile, write_run
from kokoro_nb.storage import file_digest

if TYPE_CHECKING:
    from subprocess import Popen

    from jupyter_client.manager import AsyncKernelManager

# Messages of libraries at import are not about the notebook's subject.
QUIET = {
    "PYTHONWARNINGS": "ignore",
    "TOKENIZERS_PARALLELISM": "false",
    "TORCH_CPP_LOG_LEVEL": "ERROR",
    "LOGURU_LEVEL": "ERROR",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "PYDEVD_DISABLE_FILE_VALIDATION": "1",
}
IPYTHON = "interactiveshell.py"  # in the stack of a crash the notebook's own frames end here
UNANSWERED = "Kernel died before replying"  # a RuntimeError of jupyter_client, where it ends before the first cell
RESERVE = ".reserve"  # given up at the end, so that a full disk has room for the record of that


@dataclass(frozen=True)
class Job:
    """A notebook to execute.

    Attributes
    ----------
    run : Run
        Its record so far, with the status ``running``.
    source : str
        The notebook, as JSON.
    folder : Path
        Where it is executed and everything is written.
    parameters : dict
        Passed to it.
    cells : int
        How many it has, for the progress bar.
    threads : int or None
        How many threads numerical libraries may use, where several notebooks share the machine.
    limits : Limits
        Its limits of time and memory.
    place : Path or None
        The working directory of the kernel; `folder` where there is none.
    memory : float
        Bytes that it is expected to hold.
    seconds : float or None
        How long it is expected to take; None if that is not known.
    """

    run: RunRecord
    source: str
    folder: Path
    parameters: Mapping[str, Any]
    cells: int
    threads: int | None = None
    limits: Limits = NONE
    place: Path | None = None
    memory: float = 0.0
    seconds: float | None = None


class FolderLock:
    """The lock of a folder, handed on to a process that is spawned: the folder is held as long as one of them lives."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __reduce__(self) -> Any:
        from multiprocessing.reduction import DupFd

        return _hold, (DupFd(self.number),)


def _hold(duplicate: Any) -> FolderLock:
    return FolderLock(duplicate.detach())


def kernel_manager(
    log: IO[bytes], begun: "list[Popen[bytes]]", job: Job, hold: FolderLock | None = None
) -> "type[AsyncKernelManager]":
    """Return a kernel manager class that starts this very interpreter, whatever kernels are installed.

    Parameters
    ----------
    log : binary file
        Takes what the kernel process itself prints, which is not the notebook's output: why it crashed, for one.
    begun : list of subprocess.Popen
        Receives the process of the kernel.
    job : Job
        Says where a logbook writes, and how many threads numerical libraries may use, unless the environment says so.
    hold : Hold, optional
        What the kernel holds as long as it lives: left behind by a worker that was killed, it may still write.
    """
    import zmq
    from jupyter_client.kernelspec import KernelSpec
    from jupyter_client.manager import AsyncKernelManager

    environment = {**QUIET, OUT_DIR: str(job.folder)}
    if job.threads is not None:
        environment["OMP_NUM_THREADS"] = os.environ.get("OMP_NUM_THREADS") or str(job.threads)
    spec = KernelSpec(
        argv=[sys.executable, "-m", "kokoro_nb.reporting.notebook_kernel", "-f", "{connection_file}"],
        display_name="Python 3",
        language="python",
        env=environment,
        metadata={"supported_encryption": ["curve"]},
    )
    encryption = "auto" if zmq.has("curve") else "disabled"  # without it ipykernel warns in every notebook

    class ThisPython(AsyncKernelManager):
        def __init__(self, **options: Any) -> None:
            super().__init__(transport_encryption=encryption, shutdown_wait_time=2.0, **options)

        async def start_kernel(self, **options: Any) -> None:  # type: ignore[override]
            kept = {} if hold is None else {"pass_fds": (hold.number,)}
            await super().start_kernel(**options, **kept, stdout=log, stderr=log)
            begun.append(self.provisioner.process)  # type: ignore[union-attr]

        @property
        def kernel_spec(self) -> KernelSpec:
            return spec

    return ThisPython


def work(job: Job, pipe: Connection, hold: FolderLock) -> None:
    """Execute `job`, sending the index of each cell as it begins, write its record and send it; the process's task.

    The terminal's interrupt reaches every process of the group at once: it is left to the parent, which then
    terminates its workers, so that none is interrupted twice. If the parent is killed, this ends as well.
    """
    logging.disable(logging.ERROR)  # all of papermill's messages are in the record
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGHUP, signal.SIGTERM})
    orphaned = Event()
    Thread(target=_follow, args=(orphaned,), daemon=True).start()
    start = time.monotonic()
    try:
        run = execute(job, pipe.send, hold)
    except (KeyboardInterrupt, BrokenPipeError) as error:
        gone = orphaned.is_set() or isinstance(error, BrokenPipeError)
        took = round(time.monotonic() - start, 2)
        run = job.run.ended(outcome("abandoned" if gone else "terminated"), took)
        run = replace(run, profile=read_profile(job.folder, took))
    with suppress(OSError):
        (job.folder / SECONDS).unlink(missing_ok=True)
    if run.status not in ("abandoned", "terminated"):
        run = replace(run, files=files_of(job.folder, run.notebook))
    write_end(job.folder, run)
    with suppress(OSError):  # the parent has gone
        pipe.send(run)


def write_end(folder: Path, run: RunRecord) -> None:
    """Write the record of a run that has ended, on a full disk in the room that was kept for it."""
    with suppress(OSError):
        (folder / RESERVE).unlink(missing_ok=True)
    with suppress(OSError, InputError):  # it stays as it was when the run began, which nobody takes for a pass
        write_run(folder, run)


def _follow(orphaned: Event) -> None:
    """End this process as its parent ends it, once the parent itself has gone."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        orphaned.set()
        os.kill(os.getpid(), signal.SIGTERM)


def execute(job: Job, report: Callable[[int], None], hold: FolderLock | None = None) -> RunRecord:
    """Execute `job` through papermill and return its record, but for the files that it left.

    Parameters
    ----------
    job : Job
        The executed copy becomes ``<name>.ipynb`` in its folder, complete up to the cell that failed.
    report : callable
        Called with the index of each cell as it begins.
    hold : Hold, optional
        What the kernel holds as long as it lives.
    """
    start, spent = time.monotonic(), processor_seconds()
    with enforced(job.limits) as usage:
        how = _execute(job, report, hold)
    if usage.passed and how.status != "passed":
        how = replace(usage.passed[0], error=how.error)
    took = round(time.monotonic() - start, 2)
    return replace(
        job.run.ended(how, took),
        profile=read_profile(job.folder, took),
        memory=round(usage.memory, 3),
        processor=round(processor_seconds() - spent, 2),
    )


def _execute(job: Job, report: Callable[[int], None], hold: FolderLock | None) -> RunOutcome:
    import nbformat
    import papermill
    from nbclient.exceptions import DeadKernelError
    from papermill.exceptions import PapermillExecutionError

    target = str(job.folder / f"{job.run.notebook}.ipynb")
    begun: list[Popen[bytes]] = []
    starved = oom_kills()
    with tempfile.TemporaryFile() as log:
        try:
            papermill.execute_notebook(
                nbformat.reads(job.source, as_version=4),
                target.replace("{", "{{").replace("}", "}}"),  # papermill formats the path
                parameters=dict(job.parameters),
                kernel_name="python3",
                language="python",
                progress_bar=False,
                kernel_manager_class=kernel_manager(log, begun, job, hold),
                resources={"metadata": {"path": str(job.place or job.folder)}},
                on_cell_start=lambda cell, cell_index: report(cell_index),
            )
        except PapermillExecutionError as error:
            return error_outcome(str(error.ename), str(error.evalue))
        except BrokenPipeError:
            raise
        except Exception as error:  # whatever stops papermill stops this notebook only, and is recorded
            name = type(error).__name__
            if not isinstance(error, DeadKernelError) and not str(error).startswith(UNANSWERED):
                return error_outcome(name, str(error))
            log.seek(0)
            said = log.read().decode(errors="replace").splitlines()
            last = [f"{name}: {error}", *takewhile(lambda line: IPYTHON not in line, said)]
            code = begun[0].wait() if begun else None
            return death_outcome("kernel", code, "\n".join(last), oom_kills() > starved)
    return _end_of(job.folder)


def _end_of(folder: Path) -> RunOutcome:
    """Return how a notebook ended whose cells have all run: a failed check counts, where nothing raised for it too."""
    path = folder / FINDINGS
    if not path.is_file():
        return RunOutcome("passed")
    findings, about = read_findings(path)
    failed = [one.statement for one in findings if one.verdict == "fail" and one.diagnosis is None]
    if about.get("finished") or not failed:
        return RunOutcome("passed")
    return outcome("checks failed", f"{len(failed)} checks failed, and log.close() was not called: {'; '.join(failed)}")


def files_of(folder: Path, notebook: str) -> dict[str, str]:
    """Return what a run has left in its folder, relative to it, but for its record and what is hidden -> its SHA-256.

    The executed copy of `notebook` is left out where it is not whole: papermill writes it in place.
    """
    found = (path.relative_to(folder) for path in sorted(folder.rglob("*")) if path.is_file())
    names = [path.as_posix() for path in found if path.name != FILE and not path.parts[0].startswith(".")]
    copy = f"{notebook}.ipynb"
    try:
        json.loads((folder / copy).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        names = [name for name in names if name != copy]
    return {name: file_digest(folder / name) for name in names}
