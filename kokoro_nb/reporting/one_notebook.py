"""One notebook executed through papermill, in a kernel of its own."""

import logging
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from kokoro_nb.errors import InputError
from kokoro_nb.findings import read_findings
from kokoro_nb.reporting.logbook import FINDINGS, OUT_DIR
from kokoro_nb.reporting.run_outcome import (
    NONE,
    Limits,
    RunOutcome,
    death_outcome,
    error_outcome,
    oom_kills,
    outcome,
    watched,
)
from kokoro_nb.reporting.runs import FILE, RunRecord, write_run
from kokoro_nb.storage import checksums

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
STOPPED = ("interrupted", "terminated", "abandoned")  # with the whole run
RESERVE = ".reserve"  # given up at the end, so that a full disk has room for the record of that


@dataclass(frozen=True)
class Job:
    """A notebook to execute.

    Attributes
    ----------
    run : RunRecord
        Its record so far, with the status ``running``.
    source : str
        The notebook, as JSON.
    folder : Path
        Where it is executed and everything is written.
    parameters : dict
        Passed to it.
    threads : int or None
        How many threads numerical libraries may use, where several notebooks share the machine.
    limits : Limits
        Its limits of time and memory.
    place : Path or None
        The working directory of the kernel; `folder` where there is none.
    """

    run: RunRecord
    source: str
    folder: Path
    parameters: Mapping[str, Any]
    threads: int | None = None
    limits: Limits = NONE
    place: Path | None = None


def hush() -> None:
    """Keep what papermill and those that it uses log off the terminal: all of it is in the record."""
    for name in ("papermill", "traitlets", "asyncio"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


def execute(
    job: Job,
    report: Callable[[int], object] = lambda cell: None,
    stopped: Callable[[], RunOutcome | None] = lambda: None,
) -> RunRecord:
    """Execute `job`, write its record and return it.

    Parameters
    ----------
    job : Job
        The executed copy becomes ``<name>.ipynb`` in its folder, complete up to the cell that failed.
    report : callable
        Called with the index of each cell as it begins.
    stopped : callable
        Returns how the run was stopped, None while it goes on.
    """
    start, kernels = time.monotonic(), list["Popen[bytes]"]()
    with watched(kernels, job.limits, stopped) as usage:
        how = _execute(job, report, kernels)
    if usage.ended is not None and how.status != "passed":
        how = replace(usage.ended, error="" if usage.ended.status in STOPPED else how.error)
    run = replace(job.run.ended(how, round(time.monotonic() - start, 2)), memory=round(usage.memory, 3))
    if run.status not in STOPPED:
        run = replace(run, files=_files_of(job.folder))
    with suppress(OSError):
        (job.folder / RESERVE).unlink(missing_ok=True)
    with suppress(OSError, InputError):  # it stays as it was when the run began, which nobody takes for a pass
        write_run(job.folder, run)
    return run


def _execute(job: Job, report: Callable[[int], object], kernels: "list[Popen[bytes]]") -> RunOutcome:
    import nbformat
    import papermill
    from nbclient.exceptions import DeadKernelError
    from papermill.exceptions import PapermillExecutionError

    target = str(job.folder / f"{job.run.notebook}.ipynb")
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
                kernel_manager_class=_kernel_manager(log, kernels, job),
                resources={"metadata": {"path": str(job.place or job.folder)}},
                on_cell_start=lambda cell, cell_index: report(cell_index),
            )
        except PapermillExecutionError as error:
            return error_outcome(str(error.ename), str(error.evalue))
        except Exception as error:  # whatever stops papermill stops this notebook only, and is recorded
            name = type(error).__name__
            if not isinstance(error, DeadKernelError) and not str(error).startswith(UNANSWERED):
                return error_outcome(name, str(error))
            log.seek(0)
            said = log.read().decode(errors="replace").splitlines()
            last = [f"{name}: {error}", *takewhile(lambda line: IPYTHON not in line, said)]
            code = kernels[0].wait() if kernels else None
            return death_outcome(code, "\n".join(last), oom_kills() > starved)
    return _end_of(job.folder)


def _kernel_manager(log: IO[bytes], kernels: "list[Popen[bytes]]", job: Job) -> "type[AsyncKernelManager]":
    """Return a kernel manager class that starts this very interpreter, whatever kernels are installed.

    Parameters
    ----------
    log : binary file
        Takes what the kernel process itself prints, which is not the notebook's output: why it crashed, for one.
    kernels : list of subprocess.Popen
        Receives the process of the kernel.
    job : Job
        Says where a logbook writes, and how many threads numerical libraries may use, unless the environment says so.
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
            await super().start_kernel(**options, stdout=log, stderr=log)
            kernels.append(self.provisioner.process)  # type: ignore[union-attr]

        @property
        def kernel_spec(self) -> KernelSpec:
            return spec

    return ThisPython


def _end_of(folder: Path) -> RunOutcome:
    """Return how a notebook ended whose cells have all run: a failed check counts, where nothing raised for it too."""
    path = folder / FINDINGS
    if not path.is_file():
        return RunOutcome("passed")
    try:
        findings, about = read_findings(path)
    except InputError as error:
        return outcome("failed", str(error))
    failed = [one.statement for one in findings if one.verdict == "fail" and one.diagnosis is None]
    if about.get("finished") or not failed:
        return RunOutcome("passed")
    return outcome("checks failed", f"{len(failed)} checks failed, and log.close() was not called: {'; '.join(failed)}")


def _files_of(folder: Path) -> dict[str, str]:
    """Return what a run has left in its folder, but for its record and what is hidden: relative path -> SHA-256."""
    found = checksums(folder, (FILE,)).items()
    return {name: about["sha256"] for name, about in found if not name.startswith(".")}
