"""Programs timed in turn, so that what slows the machine for a while slows all of them; their ratios are compared."""

import os
import platform
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from kokoro_nb.errors import InputError

Call = Callable[[], Any]
Made = TypeVar("Made")
Described = tuple[float, float | None, Mapping[str, Any]]
BASE = "eager"
ROUNDS = 7
DRAWS = 1000  # of the bootstrap
COVERED = 0.95
APART = 0.25  # of 1: how far a program may be from as fast as itself before the machine is taken to be busy
AGAIN = "eager, again"  # the control: the first program, a second time at the end of each round
LIMIT = 60.0  # seconds that one program may take in all, warm-up aside
PAUSE = 0.05  # seconds before each call: the threads of the program before may still be waiting for work at full speed


@dataclass(frozen=True)
class Spread:
    """Several figures by their middle.

    Attributes
    ----------
    median, low, high : float
        Of times, the quartiles; of ratios, the bounds of `COVERED` of the medians of as many rounds drawn again.
    rounds : int
        How many figures there were.
    """

    median: float
    low: float
    high: float
    rounds: int


@dataclass(frozen=True)
class TimedProgram:
    """One program, timed in turn with others.

    Attributes
    ----------
    program : str
    length : float
        Seconds of audio that a call makes.
    seconds : Spread
        Of a call: median and quartiles.
    ratio : Spread
        To `BASE` in the same round.
    error : float or None
        Largest difference from eager PyTorch, of its peak; None where the two cannot be compared.
    figures : mapping
        Whatever else was measured, each with its unit in its name.
    """

    program: str
    length: float
    seconds: Spread
    ratio: Spread
    error: float | None = None
    figures: Mapping[str, Any] = field(default_factory=dict)

    @property
    def real_time(self) -> float:
        """Seconds of computing for each second of audio."""
        return self.seconds.median / self.length

    def as_dict(self) -> dict[str, Any]:
        """Return the row of a table, with units in its keys."""
        row = {"program": self.program, "run (s)": self.seconds.median, "real-time factor": self.real_time}
        row |= {f"x {BASE}": self.ratio.median, "from": self.ratio.low, "to": self.ratio.high}
        row |= {"rounds": self.ratio.rounds}
        return {**row, **({} if self.error is None else {"error (of peak)": self.error}), **self.figures}


def in_turn(calls: Mapping[str, Call], rounds: int, limit: float = LIMIT) -> dict[str, tuple[float, ...]]:
    """Time each of `calls` once a round, in the order in which they are given.

    Each is called once before, to warm up. One so slow that it would take longer than `limit` takes part in the first
    rounds alone, as many as fit and one at least.

    Parameters
    ----------
    calls : mapping of str to callable
        The first is what the others are compared with.
    rounds : int
        At least 1.
    limit : float
        Seconds for one program in all rounds together.

    Returns
    -------
    dict
        Name -> seconds of each round.

    Raises
    ------
    InputError
        If there is nothing to call, or no round.
    """
    if not calls or rounds < 1:
        raise InputError(f"{len(calls)} programs in {rounds} rounds cannot be timed; give one or more of each.")
    enough = {name: min(rounds, max(1, int(limit / max(timed(call)[1], 1e-9)))) for name, call in calls.items()}
    times: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(rounds):
        for name, call in calls.items():
            if number < enough[name]:
                time.sleep(PAUSE)
                times[name].append(timed(call)[1])
    return {name: tuple(each) for name, each in times.items()}


def timed(call: Callable[[], Made]) -> tuple[Made, float]:
    """Return what a call returned, and its wall time in seconds."""
    start = time.perf_counter()
    return call(), time.perf_counter() - start


@contextmanager
def threads(number: int) -> Iterator[None]:
    """Have PyTorch compute with so many threads inside."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def watched(call: Callable[[], Made]) -> tuple[Made, float]:
    """Return what a call returned, and the share of the machine's cores that other processes took meanwhile."""
    from psutil import cpu_count

    used = _elsewhere()
    made, lasted = timed(call)
    return made, float(np.maximum(0.0, (_elsewhere() - used) / (lasted * (cpu_count() or 1))))


def busy(control: Spread, elsewhere: float = 0.0) -> bool:
    """Return whether the machine had other work: no ratio counts then.

    A load that comes and goes is seen by a program that is not as fast as itself. One that lasts slows each round alike
    and is seen by the cores that it takes, with which a program takes 1 / (1 - `elsewhere`) as long at least.

    Parameters
    ----------
    control : Spread
        Ratio of a program that was timed twice in each round to itself.
    elsewhere : float
        Share of the cores that other processes took.

    Examples
    --------
    >>> busy(Spread(1.02, 0.97, 1.1, 7)), busy(Spread(12.0, 8.0, 13.0, 7)), busy(Spread(1.0, 0.9, 1.1, 7), 0.5)
    (False, True, True)
    """
    return max(control.low - 1, 1 - control.high) > APART or elsewhere > 1 - 1 / (1 + APART)


def compared(
    calls: Mapping[str, Call], rounds: int, limit: float, describe: Callable[[str], Described]
) -> tuple[tuple[TimedProgram, ...], bool]:
    """Time programs in turn; return a row for each, and whether the machine was busy: no ratio counts then.

    Parameters
    ----------
    calls, rounds, limit
        See `in_turn`. The first program is `BASE`, the last is the control, the first again.
    describe : callable
        Name of a program -> seconds of audio that a call makes, its error and its other figures: see `TimedProgram`.
    """
    times, elsewhere = watched(lambda: in_turn(calls, rounds, limit))
    ratios = {name: ratio(each, times[BASE]) for name, each in times.items()}
    is_busy = busy([*ratios.values()][-1], elsewhere)
    unknown = Spread(float("nan"), float("nan"), float("nan"), 0)
    rows = []
    for name, each in times.items():
        length, error, figures = describe(name)
        one = unknown if is_busy else ratios[name]
        rows.append(TimedProgram(name, length, spread(each), one, error, figures))
    return tuple(rows), is_busy


def spread(values: Sequence[float]) -> Spread:
    """Return median and quartiles.

    >>> spread([4.0, 1.0, 2.0, 3.0, 5.0])
    Spread(median=3.0, low=2.0, high=4.0, rounds=5)
    """
    low, median, high = np.quantile(np.asarray(values, np.float64), (0.25, 0.5, 0.75)).tolist()
    return Spread(median, low, high, len(values))


def ratio(candidate: Sequence[float], base: Sequence[float], seed: int = 0) -> Spread:
    """Return how many times as long the candidate took as the base: each round by itself, then the median.

    The bounds are those of a percentile bootstrap over the rounds (Efron 1979, "Bootstrap Methods: Another Look at the
    Jackknife"): the rounds are drawn again with replacement, `DRAWS` times. Of one round there is nothing to draw, and
    the bounds are NaN.

    Parameters
    ----------
    candidate, base : sequence of float
        Seconds of each round; rounds that the candidate did not take part in are left out.
    seed : int
        Of the draws.

    Examples
    --------
    >>> ratio([2.0, 4.0, 6.0], [1.0, 2.0, 3.0])
    Spread(median=2.0, low=2.0, high=2.0, rounds=3)
    """
    paired = min(len(candidate), len(base))
    each = np.asarray(candidate[:paired], np.float64) / np.asarray(base[:paired], np.float64)
    if paired < 2:
        return Spread(float(each[0]), float("nan"), float("nan"), paired)
    drawn = np.random.default_rng(seed).integers(0, paired, (DRAWS, paired))
    low, high = np.quantile(np.median(each[drawn], axis=1), ((1 - COVERED) / 2, (1 + COVERED) / 2)).tolist()
    return Spread(float(np.median(each)), low, high, paired)


def _elsewhere() -> float:
    """Return the seconds that the cores have worked for other processes than this one, since whenever."""
    from psutil import cpu_times

    every = cpu_times()._asdict()
    idle = ("idle", "iowait", "guest", "guest_nice")  # a guest's time is among the user's too
    own = os.times()
    return sum(seconds for name, seconds in every.items() if name not in idle) - own.user - own.system


_CPUINFO = Path("/proc/cpuinfo")


@dataclass(frozen=True)
class Machine:
    """What a ratio is of.

    Attributes
    ----------
    processor : str
        As it calls itself.
    architecture, system : str
        ``x86_64``, ``Linux``.
    cores : int
        Those that this process may use.
    """

    processor: str
    architecture: str
    system: str
    cores: int


def this_machine() -> Machine:
    """Return the machine that this process runs on."""
    named = _linux_name() or _macos_name() or platform.processor() or platform.machine()
    return Machine(named, platform.machine(), platform.system(), cores())


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _linux_name() -> str:
    text = _CPUINFO.read_text(encoding="utf-8", errors="replace") if _CPUINFO.exists() else ""
    names = (line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name"))
    return next(names, "")


def _macos_name() -> str:
    if platform.system() != "Darwin":
        return ""
    command = ["sysctl", "-n", "machdep.cpu.brand_string"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
