"""The record of a notebook's execution, ``run.json``: what was executed, how it ended, and whether it still counts.

How it ended is a status for each cause, and a sentence on how to go on.
"""

import re
import signal
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Literal, get_args

from kokoro_nb.cache_keys import DATA, cache_key, files_digest
from kokoro_nb.errors import InputError
from kokoro_nb.reporting.versions import versions
from kokoro_nb.storage import file_digest, in_use, read_json, write_json

Pending = Literal["waiting", "running"]  # the first in an index only: nothing is recorded of it
Stopped = Literal["interrupted", "terminated", "abandoned"]  # with the whole run
Fault = Literal["failed", "checks failed", "refused", "crashed", "killed", "timed out", "damaged", "removed"]
Limit = Literal["out of memory", "disk full", "read-only"]
Status = Literal[Pending, "passed", "skipped", Fault, Limit, Stopped]
"""What a run is; ``skipped`` is what no worker of a sweep can run."""
AGAIN = "the same command runs it again"
# What Python, NumPy, torch and C++ say at a limit of the machine.
_LIMIT_MESSAGES: dict[Status, re.Pattern[str]] = {
    "disk full": re.compile(r"no space left on device|disk quota exceeded|\[Errno (27|28|122)\]", re.IGNORECASE),
    "read-only": re.compile(r"read-only file system|\[Errno 30\]", re.IGNORECASE),
    "out of memory": re.compile(
        r"\b_?(Array)?MemoryError\b|OutOfMemoryError|bad_alloc|not enough memory|(can't|cannot) allocate memory"
        r"|unable to allocate",
        re.IGNORECASE,
    ),
}
_REASONS: dict[Status, str] = {
    "failed": "A cell raised an error; fix what it names, and the same command goes on from here.",
    "checks failed": "Every cell ran, and checks failed; what they say is below, and the same command runs it again.",
    "refused": "A cell was given what it cannot use; fix what it names, and the same command goes on from here.",
    "disk full": f"There was no room left to write; make room or choose another --out, and {AGAIN}.",
    "read-only": f"What it writes to can only be read; make it writable or choose another --out, and {AGAIN}.",
    "out of memory": f"There was no memory left for it; run fewer at once or leave it more, and {AGAIN}.",
    "interrupted": f"It was stopped by Ctrl-C; {AGAIN}.",
    "terminated": f"It was stopped by a request to end, SIGTERM or SIGHUP; {AGAIN}.",
    "abandoned": f"The run ended before it did, killed or by an error of its own; {AGAIN}.",
}
KILLS = (signal.SIGKILL, signal.SIGTERM, signal.SIGXCPU)  # signals that come from outside
FILE = "run.json"
KINDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("notebook", "key", "started", "error", "reason", "source"), (str,)),
    **{"parameters": (dict,), "files": (dict,), "memory": (int, float), "seconds": (int, float, type(None))},
}
WEIGHTS = (".pth", ".pt", ".safetensors", ".bin", ".npz", ".onnx")


def now() -> str:
    """Return the time, UTC, as ISO 8601 to the second."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


@dataclass(frozen=True)
class RunOutcome:
    """How an execution ended.

    Attributes
    ----------
    status : str
        ``passed``, or the cause.
    error : str
        Class and message of the error, and for a crash the last lines that the kernel printed.
    reason : str
        One sentence that says what happened and how to go on; that of the status by default, empty where it passed.
    """

    status: Status
    error: str = ""
    reason: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "reason", self.reason or _REASONS.get(self.status, ""))


def error_outcome(name: str, message: str) -> RunOutcome:
    """Return the outcome of what raised an error: a limit of the machine if the message says so, else a failure.

    Parameters
    ----------
    name, message : str
        Class and text of the error.

    >>> [error_outcome(*one).status for one in (("OSError", "[Errno 28] No space left on device"), ("MemoryError", ""))]
    ['disk full', 'out of memory']
    >>> [error_outcome(name, "'x'").status for name in ("InputError", "ChecksError", "KeyError")]
    ['refused', 'checks failed', 'failed']
    """
    error = f"{name}: {message}"
    if name == "ChecksError":  # it repeats messages of others
        return RunOutcome("checks failed", error)
    cause = next((status for status, message in _LIMIT_MESSAGES.items() if message.search(error)), None)
    return RunOutcome(cause or ("refused" if name == "InputError" else "failed"), error)


def death_outcome(code: int | None, error: str, starved: bool) -> RunOutcome:
    """Return the outcome of a kernel that died.

    Parameters
    ----------
    code : int or None
        As `subprocess.Popen.returncode`; None where it is not known.
    error : str
        What it printed.
    starved : bool
        Whether the system killed a process for want of memory meanwhile: see `oom_kills`.

    >>> death_outcome(-9, "", False).reason
    'The kernel was killed from outside by SIGKILL; the same command runs it again.'
    >>> [death_outcome(code, "", True).status for code in (-9, -11, 3)]
    ['out of memory', 'crashed', 'crashed']
    """
    memory = _LIMIT_MESSAGES["out of memory"].search(error)
    if memory or (starved and code == -signal.SIGKILL):
        return RunOutcome("out of memory", error)
    if code is not None and -code in KILLS:
        return RunOutcome("killed", error, f"The kernel was killed from outside by {_signal(-code)}; {AGAIN}.")
    how = "died" if code is None else f"was ended by {_signal(-code)}" if code < 0 else f"ended with exit status {code}"
    return RunOutcome("crashed", error, f"The kernel {how}, by itself; fix what crashes it, and {AGAIN}.")


def _signal(number: int) -> str:
    return next((one.name for one in signal.Signals if one == number), f"signal {number}")


@dataclass(frozen=True)
class RunRecord:
    """One execution of a notebook.

    Attributes
    ----------
    notebook : str
        Its name, which is also the name of the folder.
    status : str
        How it ended: ``passed``, or what stopped it (`Status`). A run that was killed with all its
        processes stays ``running``.
    key : str
        `content_key` of what was executed.
    parameters : dict
        Those that were passed in, but for the folder.
    started : str
        UTC, ISO 8601.
    seconds : float or None
        Wall time, once it ended.
    error : str
        The error that stopped it: class and message.
    reason : str
        Why it stopped and how to go on, in one sentence.
    files : dict
        Path of each file in the folder when it ended -> its SHA-256; the executed copy counts only if it is listed.
    source : str
        Path of the notebook, where it lies outside the project; else empty.
    memory : float
        Most memory that all its processes held together, GB, as `one_notebook.Usage` says; 0 where it was not measured.
    """

    notebook: str
    status: Status
    key: str
    parameters: Mapping[str, Any]
    started: str = field(default_factory=now)
    seconds: float | None = None
    error: str = ""
    reason: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    source: str = ""
    memory: float = 0.0

    @property
    def executed(self) -> str | None:
        """Name of the executed copy, None while it is not whole."""
        name = f"{self.notebook}.ipynb"
        return name if name in self.files else None

    @property
    def message(self) -> str:
        """What stopped it: the error of a cell, else the sentence."""
        return self.error if self.error and self.status in ("failed", "checks failed", "refused") else self.reason

    def begun(self) -> "RunRecord":
        """Return the record of this execution as it begins."""
        return replace(self, started=now())

    def ended(self, how: RunOutcome) -> "RunRecord":
        """Return the record of this execution once it has ended like that."""
        return replace(self, status=how.status, reason=how.reason, error=how.error)


def write_run(folder: str | Path, run: RunRecord) -> Path:
    """Write ``run.json`` into `folder`."""
    return write_json(Path(folder) / FILE, asdict(run))


def read_run(folder: str | Path) -> RunRecord | None:
    """Read the record in `folder`; None if there is none.

    Raises
    ------
    InputError
        If it is no record of this package.
    """
    path = Path(folder) / FILE
    if not path.is_file():
        return None
    row = read_json(path, "record of a run")
    if not isinstance(row, dict) or not _sound(row := {"source": "", "memory": 0.0, **row}):
        raise InputError(f"{path} is no record of a run; delete its folder and run the notebook again.")
    return RunRecord(**row)


def _sound(row: Mapping[str, Any]) -> bool:
    return (
        row.keys() == {item.name for item in fields(RunRecord)}
        and all(type(row[name]) in kinds for name, kinds in KINDS.items())
        and Path(row["notebook"]).name == row["notebook"] != ""
        and row["status"] in get_args(Status)
        and all(isinstance(checksum, str) for checksum in row["files"].values())
    )


def read_run_or_damage(folder: str | Path) -> RunRecord | None:
    """Read the record in `folder` as `read_run` does; where it is damaged, return one that says so."""
    folder = Path(folder)
    try:
        run = read_run(folder)
        if run is None or run.notebook == folder.name:
            return run
        why = f"it is the record of {run.notebook}"
    except InputError as error:
        why = str(error).removesuffix(".")
    changed = datetime.fromtimestamp((folder / FILE).stat().st_mtime, timezone.utc).isoformat(timespec="seconds")
    reason = f"Its record, {FILE}, is damaged; {AGAIN}."
    return RunRecord(folder.name, "damaged", "", {}, changed, error=why, reason=reason)


def read_runs(root: str | Path) -> list[RunRecord]:
    """Read the records of all notebooks below `root`, by name; none if nothing has been run.

    A record that says ``running`` while no process holds `root` is returned as abandoned.
    """
    found = [read_run_or_damage(path.parent) for path in sorted(Path(root).glob(f"*/{FILE}"))]
    running = any(run is not None and run.status == "running" for run in found) and in_use(root)
    given_up = RunOutcome("abandoned")
    return [run.ended(given_up) if run.status == "running" and not running else run for run in found if run is not None]


def changed_files(folder: str | Path, run: RunRecord, names: Iterable[str]) -> list[str]:
    """Return which of the files that `run` left in `folder` are gone, or no longer what they were."""
    return [name for name in names if name in run.files and file_digest(Path(folder) / name) != run.files[name]]


def reusable(folder: str | Path, key: str) -> RunRecord | None:
    """Return the record in `folder` if it passed with this very content and all its files are still what they were."""
    run = read_run_or_damage(folder)
    if run is None or run.status != "passed" or run.key != key:
        return None
    return run if run.executed and not changed_files(folder, run, run.files) else None


def content_key(notebook: Mapping[str, Any], parameters: Mapping[str, Any]) -> str:
    """Return the digest of what decides a notebook's results.

    These are its cells, its parameters with the content of the files and checkpoints that they name, the code of this
    package, ``data/``, and the versions of all packages.
    """
    cells = [(cell["cell_type"], cell["source"], cell["metadata"].get("tags", [])) for cell in notebook["cells"]]
    values = [each for one in parameters.values() for each in (one if isinstance(one, list | tuple) else (one,))]
    files = {each: files_digest(each) for each in values if isinstance(each, str) and each and _holds_inputs(each)}
    about = {"cells": cells, "parameters": dict(parameters), "files": files, "data": files_digest(DATA)}
    return cache_key({**about, "versions": versions()})


def _holds_inputs(name: str) -> bool:
    """Return whether `name` is a file, or a folder of weights: any other may be one that results are written into."""
    try:
        path = Path(name)
        return path.is_file() or (path.is_dir() and any(one.suffix in WEIGHTS for one in path.iterdir()))
    except (OSError, ValueError):  # a text that is too long, or cannot be the name of a file
        return False
