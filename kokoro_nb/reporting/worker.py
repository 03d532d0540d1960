"""One notebook executed through papermill, in a process and a kernel of its own."""

import logging
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import takewhile
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from kokoro_nb.reporting.runs import FILE, Run, Status, write_run

if TYPE_CHECKING:
    from jupyter_client.manager import AsyncKernelManager

# What the libraries say at import is not about the notebook's subject.
QUIET = {
    "PYTHONWARNINGS": "ignore",
    "TOKENIZERS_PARALLELISM": "false",
    "TORCH_CPP_LOG_LEVEL": "ERROR",
    "LOGURU_LEVEL": "ERROR",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "PYDEVD_DISABLE_FILE_VALIDATION": "1",
}
IPYTHON = "interactiveshell.py"  # in the stack of a crash the notebook's own frames end here


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
        What is passed to it.
    cells : int
        How many it has, for the progress bar.
    threads : int or None
        How many threads numerical libraries may use, where several notebooks share the machine.
    """

    run: Run
    source: str
    folder: Path
    parameters: Mapping[str, Any]
    cells: int
    threads: int | None = None


def kernel_manager(log: IO[bytes], threads: int | None = None) -> "type[AsyncKernelManager]":
    """Return a kernel manager class that starts this very interpreter, whatever kernels are installed.

    Parameters
    ----------
    log : binary file
        Takes what the kernel process itself says, which is not the notebook's output: why it crashed, for one.
    threads : int, optional
        How many threads numerical libraries may use, unless the environment says so already.
    """
    import zmq
    from jupyter_client.kernelspec import KernelSpec
    from jupyter_client.manager import AsyncKernelManager

    limit = {} if threads is None else {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", str(threads))}
    spec = KernelSpec(
        argv=[sys.executable, "-m", "kokoro_nb.reporting.kernel", "-f", "{connection_file}"],
        display_name="Python 3",
        language="python",
        env={**QUIET, **limit},
        metadata={"supported_encryption": ["curve"]},
    )
    encryption = "auto" if zmq.has("curve") else "disabled"  # without it ipykernel warns in every notebook

    class ThisPython(AsyncKernelManager):
        def __init__(self, **options: Any) -> None:
            super().__init__(transport_encryption=encryption, shutdown_wait_time=2.0, **options)

        async def start_kernel(self, **options: Any) -> None:  # type: ignore[override]
            await super().start_kernel(**options, stdout=log, stderr=log)

        @property
        def kernel_spec(self) -> KernelSpec:
            return spec

    return ThisPython


def work(job: Job, pipe: Connection) -> None:
    """Execute `job`, sending the index of each cell as it begins, and write its record; the process's whole task.

    The terminal's interrupt reaches every process of the group at once: it is left to the parent, which then
    terminates its workers, so that none is interrupted twice.
    """
    logging.disable(logging.ERROR)  # all that papermill has to say is in the record
    signal.signal(signal.SIGINT, lambda *_: None)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    start = time.monotonic()
    status: Status = "interrupted"
    error = ""
    try:
        error = execute(job, pipe.send)
        status = "failed" if error else "passed"
    except (KeyboardInterrupt, BrokenPipeError):
        pass  # the parent stopped this process, or has gone itself
    seconds = round(time.monotonic() - start, 2)
    files = () if status == "interrupted" else files_of(job.folder)
    write_run(job.folder, replace(job.run, status=status, seconds=seconds, error=error, files=files))


def execute(job: Job, report: Callable[[int], None]) -> str:
    """Execute `job` through papermill and return what stopped it, ``""`` if it reached its end.

    Parameters
    ----------
    job : Job
        The executed copy becomes ``<name>.ipynb`` in its folder, complete up to the cell that failed.
    report : callable
        Called with the index of each cell as it begins.
    """
    import nbformat
    import papermill
    from nbclient.exceptions import DeadKernelError
    from papermill.exceptions import PapermillExecutionError

    target = str(job.folder / f"{job.run.notebook}.ipynb")
    with tempfile.TemporaryFile() as log:
        try:
            papermill.execute_notebook(
                nbformat.reads(job.source, as_version=4),
                target.replace("{", "{{").replace("}", "}}"),  # papermill formats the path
                parameters=dict(job.parameters),
                kernel_name="python3",
                language="python",
                progress_bar=False,
                kernel_manager_class=kernel_manager(log, job.threads),
                resources={"metadata": {"path": str(job.folder)}},
                on_cell_start=lambda cell, cell_index: report(cell_index),
            )
        except PapermillExecutionError as error:
            return f"{error.ename}: {error.evalue}"
        except DeadKernelError as error:
            log.seek(0)
            said = log.read().decode(errors="replace").splitlines()
            return "\n".join([f"DeadKernelError: {error}", *takewhile(lambda line: IPYTHON not in line, said)])
        except BrokenPipeError:
            raise
        except Exception as error:  # whatever else stops papermill stops this notebook only, and is told
            return f"{type(error).__name__}: {error}"
    return ""


def files_of(folder: Path) -> tuple[str, ...]:
    """Return what a run has left in its folder, relative to it, but for its record and what is hidden."""
    found = (path.relative_to(folder) for path in sorted(folder.rglob("*")) if path.is_file())
    return tuple(path.as_posix() for path in found if path.name != FILE and not path.parts[0].startswith("."))
