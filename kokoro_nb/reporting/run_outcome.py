"""How an execution ended, a status for each cause and a sentence on how to go on; and its limits of time and memory."""

import re
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Literal

from kokoro_nb.errors import InputError

if TYPE_CHECKING:
    from subprocess import Popen

Status = Literal[
    "waiting",  # in an index only: nothing is recorded of it
    "running",
    "passed",
    "failed",
    "checks failed",
    "refused",
    "crashed",
    "killed",
    "timed out",
    "out of memory",
    "disk full",
    "read-only",
    "interrupted",
    "terminated",
    "abandoned",
    "skipped",  # no worker of a sweep can run it
    "damaged",
    "removed",
]
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
_COUNTERS = Path("/proc/vmstat")
LOOK = 0.2  # seconds between two looks at what is running


@dataclass(frozen=True)
class RunOutcome:
    """How an execution ended.

    Attributes
    ----------
    status : str
        ``passed``, or the cause.
    reason : str
        One sentence that says what happened and how to go on; empty where it passed.
    error : str
        Class and message of the error, and for a crash the last lines that the kernel printed.
    """

    status: Status
    reason: str = ""
    error: str = ""


def outcome(status: Status, error: str = "") -> RunOutcome:
    """Return the outcome of this status with its sentence."""
    return RunOutcome(status, _REASONS.get(status, ""), error)


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
        return outcome("checks failed", error)
    cause = next((status for status, message in _LIMIT_MESSAGES.items() if message.search(error)), None)
    return outcome(cause or ("refused" if name == "InputError" else "failed"), error)


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
        return outcome("out of memory", error)
    if code is not None and -code in KILLS:
        return RunOutcome("killed", f"The kernel was killed from outside by {_signal(-code)}; {AGAIN}.", error)
    how = "died" if code is None else f"was ended by {_signal(-code)}" if code < 0 else f"ended with exit status {code}"
    return RunOutcome("crashed", f"The kernel {how}, by itself; fix what crashes it, and {AGAIN}.", error)


def oom_kills() -> int:
    """Return how many processes the system has killed for memory since it started; 0 where it does not count them."""
    try:
        counted = re.search(r"^oom_kill (\d+)$", _COUNTERS.read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        return 0
    return int(counted[1]) if counted else 0


def _signal(number: int) -> str:
    return next((one.name for one in signal.Signals if one == number), f"signal {number}")


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
            usage.memory = resident if resident > usage.memory else usage.memory
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
    how: tuple[Status, str] | None = None
    if limits.seconds is not None and seconds > limits.seconds:
        how = "timed out", f"after {limits.seconds:g} s, its limit of time"
    elif limits.memory is not None and memory > limits.memory:
        how = "out of memory", f"above {limits.memory:g} GB, its limit of memory"
    return how and RunOutcome(how[0], f"It was stopped {how[1]}; allow it more, and {AGAIN}.")
