"""What one execution takes of time and memory, and its limits: what exceeds one is killed."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Event, Thread
from typing import TYPE_CHECKING

from kokoro_nb.errors import InputError
from kokoro_nb.reporting.run_outcome import AGAIN, RunOutcome

if TYPE_CHECKING:
    from subprocess import Popen

LOOK = 0.2  # seconds between two looks


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
    if limits.seconds is not None and seconds > limits.seconds:
        reason = f"It was stopped after {limits.seconds:g} s, its limit of time; allow it more, and {AGAIN}."
        return RunOutcome("timed out", reason)
    if limits.memory is not None and memory > limits.memory:
        reason = f"It was stopped above {limits.memory:g} GB, its limit of memory; allow it more, and {AGAIN}."
        return RunOutcome("out of memory", reason)
    return None
