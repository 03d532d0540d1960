"""How an execution ended that did not reach its end: one status for each cause, and a sentence on how to go on."""

import re
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Status = Literal[
    "running",
    "passed",
    "failed",
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
    "damaged",
    "removed",
]
AGAIN = "the same command executes it again"
# What a limit of the machine is called by Python, NumPy, torch and C++, each in its own words.
_SAID: dict[Status, re.Pattern[str]] = {
    "disk full": re.compile(r"no space left on device|disk quota exceeded|\[Errno (27|28|122)\]", re.IGNORECASE),
    "read-only": re.compile(r"read-only file system|\[Errno 30\]", re.IGNORECASE),
    "out of memory": re.compile(
        r"\b_?(Array)?MemoryError\b|OutOfMemoryError|bad_alloc|not enough memory|(can't|cannot) allocate memory"
        r"|unable to allocate",
        re.IGNORECASE,
    ),
}
_REASONS: dict[Status, str] = {
    "failed": "A cell raised an error; mend what it names, and the same command goes on from here.",
    "refused": "A cell was given what it cannot use; mend what it names, and the same command goes on from here.",
    "disk full": f"There was no room left to write; make room or choose another --out, and {AGAIN}.",
    "read-only": f"What it writes to can only be read; make it writable or choose another --out, and {AGAIN}.",
    "out of memory": f"There was no memory left for it; run fewer at once or leave it more, and {AGAIN}.",
    "interrupted": f"It was stopped by Ctrl-C; {AGAIN}.",
    "terminated": f"It was stopped by a request to end, SIGTERM or SIGHUP; {AGAIN}.",
    "abandoned": f"The run ended before it did, killed or by an error of its own; {AGAIN}.",
}
KILLS = (signal.SIGKILL, signal.SIGTERM, signal.SIGXCPU)  # signals that come from outside
_COUNTERS = Path("/proc/vmstat")


@dataclass(frozen=True)
class Ending:
    """How an execution ended.

    Attributes
    ----------
    status : str
        ``passed``, or the cause.
    reason : str
        One sentence that says what happened and how to go on; empty where it passed.
    error : str
        What was raised or said: class and message, and for a crash the last words of the kernel.
    """

    status: Status
    reason: str = ""
    error: str = ""


def ending(status: Status, error: str = "") -> Ending:
    """Return the ending of this status with its sentence."""
    return Ending(status, _REASONS.get(status, ""), error)


def raised(name: str, message: str) -> Ending:
    """Return the ending of what raised an error: a limit of the machine if the message says so, else a failure.

    Parameters
    ----------
    name, message : str
        Class and text of the error.

    >>> raised("OSError", "[Errno 28] No space left on device").status, raised("MemoryError", "").status
    ('disk full', 'out of memory')
    >>> raised("InputError", "There is no voice 'x'; use another.").status, raised("KeyError", "'x'").status
    ('refused', 'failed')
    """
    error = f"{name}: {message}"
    cause = next((status for status, said in _SAID.items() if said.search(error)), None)
    return ending(cause or ("refused" if name == "InputError" else "failed"), error)


def died(what: str, code: int | None, error: str, starved: bool) -> Ending:
    """Return the ending of a process that died.

    Parameters
    ----------
    what : str
        ``kernel`` or ``worker process``.
    code : int or None
        As `subprocess.Popen.returncode`; None where it is not known.
    error : str
        What it said.
    starved : bool
        Whether the system killed a process for want of memory meanwhile: see `starvations`.

    >>> died("kernel", -9, "", False).reason
    'The kernel was killed from outside by SIGKILL; the same command executes it again.'
    >>> died("kernel", -9, "", True).status, died("kernel", -11, "", False).status, died("kernel", 3, "", True).status
    ('out of memory', 'crashed', 'crashed')
    """
    memory = _SAID["out of memory"].search(error)
    if memory or (starved and code == -signal.SIGKILL):
        return ending("out of memory", error)
    if code is not None and -code in KILLS:
        return Ending("killed", f"The {what} was killed from outside by {_signal(-code)}; {AGAIN}.", error)
    how = "died" if code is None else f"was ended by {_signal(-code)}" if code < 0 else f"ended with exit status {code}"
    return Ending("crashed", f"The {what} {how}, by itself; mend what crashes it, and {AGAIN}.", error)


def starvations() -> int:
    """Return how many processes the system has killed for want of memory since it started; 0 where it does not say."""
    try:
        counted = re.search(r"^oom_kill (\d+)$", _COUNTERS.read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        return 0
    return int(counted[1]) if counted else 0


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
