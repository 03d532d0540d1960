"""One notebook executed through papermill, in a kernel of its own and within limits of time and memory."""

import logging
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from threading import Event, Thread
from typing import IO, TYPE_CHECKING, Any, get_args

from kokoro_nb.errors import InputError
from kokoro_nb.findings import read_findings
from kokoro_nb.reporting import runs
from kokoro_nb.reporting.logbook import FINDINGS, OUT_DIR
from kokoro_nb.reporting.runs import AGAIN, FILE, RunOutcome, RunRecord, Stopped, write_run
from kokoro_nb.reporting.selection import declared_parameters
from kokoro_nb.storage import checksums

if TYPE_CHECKING:
    from subprocess import Popen

    from jupyter_client.manager import AsyncKernelManager
    from nbformat import NotebookNode

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
_COUNTERS = Path("/proc/vmstat")
LOOK = 0.2  # seconds between two looks at what is running


@dataclass(frozen=True)
class Limits:
    """What one execution may take.

    Attributes
    ----------
    seconds : float or None
        Wall time; None for no limit.
    memory : float or None
        As `Usage.memory`; None for no limit. What grows fast is stopped somewhat above it.

    Raises
    ------
    InputError
        If one is not positive.
    """

    seconds: float | None = None
    memory: float | None = None

    def __post_init__(self) -> None:
        for name, value, unit in (("time", self.seconds, "seconds"), ("memory", self.memory, "GB")):
            if value is not None and not value > 0:
                raise InputError(f"A limit of {name} has to be above 0 {unit}, not {value}; leave it out for none.")


NONE = Limits()


@dataclass(frozen=True)
class Job:
    """A notebook to execute.

    Attributes
    ----------
    run : RunRecord
        Its record so far, with the status ``running``.
    source : NotebookNode
        The notebook.
    folder : Path
        Where it is executed and everything is written.
    threads : int or None
        How many threads numerical libraries may use, where several notebooks share the machine.
    limits : Limits
        Its limits of time and memory.
    place : Path or None
        The working directory of the kernel; `folder` where there is none.
    """

    run: RunRecord
    source: "NotebookNode"
    folder: Path
    threads: int | None = None
    limits: Limits = NONE
    place: Path | None = None

    @property
    def parameters(self) -> dict[str, Any]:
        """What is passed to it: the parameters of the run, and the folder where it declares ``out_dir``."""
        folder = {"out_dir": str(self.folder)} if "out_dir" in declared_parameters(self.source) else {}
        return {**self.run.parameters, **folder}


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
        how = replace(usage.ended, error="" if usage.ended.status in get_args(Stopped) else how.error)
    seconds, memory = round(time.monotonic() - start, 2), round(usage.memory, 3)
    run = replace(job.run.ended(how), seconds=seconds, memory=memory)
    if run.status not in get_args(Stopped):
        left = checksums(job.folder, (FILE,)).items()  # but for its record, and what is hidden
        run = replace(run, files={name: about["sha256"] for name, about in left if not name.startswith(".")})
    with suppress(OSError):
        (job.folder / RESERVE).unlink(missing_ok=True)
    with suppress(OSError, InputError):  # it stays as it was when the run began, which nobody takes for a pass
        write_run(job.folder, run)
    return run


def _execute(job: Job, report: Callable[[int], object], kernels: "list[Popen[bytes]]") -> RunOutcome:
    import papermill
    from nbclient.exceptions import DeadKernelError
    from papermill.exceptions import PapermillExecutionError

    target = str(job.folder / f"{job.run.notebook}.ipynb").replace("{", "{{").replace("}", "}}")  # it is formatted
    kernel = {"kernel_name": "python3", "language": "python", "progress_bar": False}
    starved = oom_kills()
    with tempfile.TemporaryFile() as log:
        try:
            papermill.execute_notebook(
                job.source,
                target,
                job.parameters,
                **kernel,
                kernel_manager_class=_kernel_manager(log, kernels, job),
                resources={"metadata": {"path": str(job.place or job.folder)}},
                on_cell_start=lambda cell, cell_index: report(cell_index),
            )
        except PapermillExecutionError as error:
            return runs.error_outcome(str(error.ename), str(error.evalue))
        except Exception as error:  # whatever stops papermill stops this notebook only, and is recorded
            name = type(error).__name__
            if not isinstance(error, DeadKernelError) and not str(error).startswith(UNANSWERED):
                return runs.error_outcome(name, str(error))
            log.seek(0)
            said = log.read().decode(errors="replace").splitlines()
            last = [f"{name}: {error}", *takewhile(lambda line: IPYTHON not in line, said)]
            code = kernels[0].wait() if kernels else None
            return runs.death_outcome(code, "\n".join(last), oom_kills() > starved)
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
    argv = [sys.executable, "-m", "kokoro_nb.reporting.notebook_kernel", "-f", "{connection_file}"]
    offers = {"supported_encryption": ["curve"]}
    spec = KernelSpec(argv=argv, display_name="Python 3", language="python", env=environment, metadata=offers)
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
        return RunOutcome("failed", str(error))
    failed = [one.statement for one in findings if one.verdict == "fail" and one.diagnosis is None]
    if about.get("finished") or not failed:
        return RunOutcome("passed")
    unclosed = f"{len(failed)} checks failed, and log.close() was not called: {'; '.join(failed)}"
    return RunOutcome("checks failed", unclosed)


@dataclass
class Usage:
    """What an execution has taken so far.

    Attributes
    ----------
    ended : RunOutcome or None
        Why it was killed; None while it was not.
    memory : float
        Most resident memory at one look, GB (10**9 bytes), of the kernel and of all that it has started, together.
    """

    ended: RunOutcome | None = None
    memory: float = 0.0


@contextmanager
def watched(
    kernels: "Sequence[Popen[bytes]]", limits: Limits, stopped: Callable[[], RunOutcome | None]
) -> Iterator[Usage]:
    """Measure kernels, and what they start, meanwhile; kill all of it once a limit is exceeded or the run is stopped.

    Parameters
    ----------
    kernels : sequence of subprocess.Popen
        Those begun so far; read at each look.
    limits : Limits
        What they may take.
    stopped : callable
        Returns how the run was stopped, None while it goes on.
    """
    import psutil

    done, usage, start = Event(), Usage(), time.monotonic()

    def watch() -> None:
        while not done.wait(LOOK):
            resident, family = 0.0, []
            for kernel in kernels:
                with suppress(psutil.Error):
                    one = psutil.Process(kernel.pid)
                    family += [one, *one.children(recursive=True)]
            for one in family:
                with suppress(psutil.Error):
                    resident += one.memory_info().rss / 1e9
            usage.memory = max(usage.memory, resident)
            usage.ended = usage.ended or stopped() or _exceeded(limits, time.monotonic() - start, resident)
            for one in family if usage.ended else ():  # again and again: the kernel may only just be starting
                with suppress(psutil.Error):
                    one.kill()

    watcher = Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield usage
    finally:
        done.set()
        watcher.join()


def _exceeded(limits: Limits, seconds: float, memory: float) -> RunOutcome | None:
    stopped, more = "It was stopped", f"allow it more, and {AGAIN}."
    if limits.seconds is not None and seconds > limits.seconds:
        return RunOutcome("timed out", reason=f"{stopped} after {limits.seconds:g} s, its limit of time; {more}")
    if limits.memory is not None and memory > limits.memory:
        return RunOutcome("out of memory", reason=f"{stopped} above {limits.memory:g} GB, its limit of memory; {more}")
    return None


def oom_kills() -> int:
    """Return how many processes the system has killed for memory since it started; 0 where it does not count them."""
    try:
        counted = re.search(r"^oom_kill (\d+)$", _COUNTERS.read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        return 0
    return int(counted[1]) if counted else 0
