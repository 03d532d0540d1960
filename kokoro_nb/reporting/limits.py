"""What one execution takes of memory and processor, and its limits: what exceeds one is killed."""

import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import TYPE_CHECKING

from kokoro_nb.errors import InputError
from kokoro_nb.reporting.run_outcome import AGAIN, RunOutcome

if TYPE_CHECKING:
    from psutil import Process

LOOK = 0.1  # seconds between two looks
GLANCE = 0.5  # where there is no limit, and the looks are for the record alone


@dataclass(frozen=True)
class Limits:
    """What one execution may take.

    Attributes
    ----------
    seconds : float or None
        Wall time; None for no limit.
    memory : float or None
        Resident memory in GB (10**9 bytes) of all that is executed, together, as `Usage.memory`; None for no limit. It
        is measured ten times a second, so that what grows fast is stopped somewhat above it.

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

    def __bool__(self) -> bool:
        return self.seconds is not None or self.memory is not None


NONE = Limits()


@dataclass
class Usage:
    """What an execution has taken so far.

    Attributes
    ----------
    passed : list of RunOutcome
        Empty until a limit was exceeded, then with that outcome.
    memory : float
        Most resident memory at one look, GB (10**9 bytes), of all its processes together; of what a process shares
        with others, its part alone where the system says how much that is, as Linux does: that is looked up when
        resident memory has grown by a twentieth, and for a fiftieth of the time.
    """

    passed: list[RunOutcome] = field(default_factory=list)
    memory: float = 0.0


@contextmanager
def enforced(limits: Limits) -> Iterator[Usage]:
    """Measure what this process starts meanwhile, the kernel and its children; kill it once a limit is exceeded.

    Yields
    ------
    Usage
        Measured ten times a second where there is a limit, else twice; a process from the second time on.
    """
    import psutil

    done, usage = Event(), Usage()
    this, start, closely = psutil.Process(), time.monotonic(), _CloseLooks(limits.memory)
    before = {child.pid for child in this.children()}
    seen: set[int] = set()  # what has only just been started may still show the memory of what starts it

    def watch() -> None:
        over = False
        while not over:  # at once as well: what is started may have ended before the second look
            own = [child for child in this.children(recursive=True) if not _within(child, before)]
            running = [child for child in own if child.pid in seen]
            seen.update(child.pid for child in own)
            resident = sum(map(_resident, running)) / 1e9
            if resident > usage.memory and closely.due(resident):  # what is shared does not count whole
                resident = closely.look(running, resident)
                usage.memory = resident if resident > usage.memory else usage.memory
            if not usage.passed:
                usage.passed.extend(_passed(limits, time.monotonic() - start, resident))
            for child in own if usage.passed else ():  # again and again: the kernel may only just be starting
                with suppress(psutil.NoSuchProcess, ProcessLookupError):
                    os.kill(child.pid, signal.SIGKILL)
            over = done.wait(LOOK if limits else GLANCE)

    watcher = Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield usage
    finally:
        done.set()


class _CloseLooks:
    """Looks at every page of processes, which take the system milliseconds for each of them: no more than needed."""

    SHARE = 0.02  # of the time, but where memory has grown, or is above its limit
    GROWTH = 1.05  # resident memory, times that at the last such look

    def __init__(self, limit: float | None) -> None:
        self._limit = limit
        self._at, self._next = 0.0, 0.0

    def due(self, resident: float) -> bool:
        """Return whether processes with so much resident memory in all, in GB, are to be looked at closely."""
        above = self._limit is not None and resident > self._limit
        return above or resident > self._at * self.GROWTH or time.monotonic() >= self._next

    def look(self, running: "Sequence[Process]", resident: float) -> float:
        """Return the memory of processes, in GB, of what they share with others their part only."""
        begin, self._at = time.monotonic(), resident
        memory = sum(map(_shared_out, running)) / 1e9
        now = time.monotonic()
        self._next = now + (now - begin) / self.SHARE
        return memory


def processor_seconds() -> float:
    """Return the processor time, user and system, of all that this process has started and that has ended."""
    spent = os.times()
    return spent.children_user + spent.children_system


def _within(process: "Process", others: set[int]) -> bool:
    """Return whether a process, or one that it comes from, was there before."""
    import psutil

    try:
        return process.pid in others or any(parent.pid in others for parent in process.parents())
    except psutil.NoSuchProcess:
        return True  # it has ended


def _passed(limits: Limits, seconds: float, resident: float) -> Iterator[RunOutcome]:
    if limits.seconds is not None and seconds > limits.seconds:
        reason = f"It was stopped after {limits.seconds:g} s, its limit of time; allow it more, and {AGAIN}."
        yield RunOutcome("timed out", reason)
    elif limits.memory is not None and resident > limits.memory:
        reason = f"It was stopped above {limits.memory:g} GB, its limit of memory; allow it more, and {AGAIN}."
        yield RunOutcome("out of memory", reason)


def _shared_out(process: "Process") -> int:
    """Return the resident memory of a process, of what it shares with others its part only."""
    import psutil

    try:
        return int(process.memory_full_info().pss)
    except (psutil.AccessDenied, AttributeError):
        return _resident(process)
    except psutil.NoSuchProcess:
        return 0


def _resident(process: "Process") -> int:
    import psutil

    try:
        return int(process.memory_info().rss)
    except psutil.NoSuchProcess:
        return 0
