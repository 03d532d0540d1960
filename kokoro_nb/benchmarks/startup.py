"""What one waits for before anything is computed: imports, and exports that are made again or found again."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from kokoro_nb.backends import backend
from kokoro_nb.backends.base import Failure, absence, quietly
from kokoro_nb.backends.exported import Exported
from kokoro_nb.backends.signature import Arrays
from kokoro_nb.benchmarks.interleaved import timed
from kokoro_nb.errors import InputError

MODULES = ("kokoro_nb.models.kokoro", "kokoro_nb.models.stages", "kokoro_nb.locate")
LEAST = 0.01  # share of the whole below which a package is among the others
OTHERS, WHOLE = "others", "in all"


@dataclass(frozen=True)
class Imported:
    """What one package adds to the time that an import takes.

    Attributes
    ----------
    package : str
        Its top-level name, `OTHERS` or `WHOLE`.
    seconds : float
        In its own modules, and in what is written in C that they load, without what they import of other packages.
    asked_by : str
        The packages that led to it first, from the outermost on.
    """

    package: str
    seconds: float
    asked_by: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return the row of a table, with units in its keys."""
        return {"package": self.package, "import (s)": self.seconds, "asked for by": self.asked_by}


@dataclass(frozen=True)
class Kept:
    """What the cache of artefacts saves.

    Attributes
    ----------
    backend : str
        Key of `BACKENDS`.
    made, found : float
        Seconds of exporting into an empty folder, and again into the same.
    size : int
        Bytes.
    """

    backend: str
    made: float
    found: float
    size: int

    def as_dict(self) -> dict[str, Any]:
        """Return the row of a table, with units in its keys."""
        told = {"program": self.backend, "made (s)": self.made, "found (s)": self.found}
        return {**told, "x made": self.found / self.made, "size (MB)": self.size / 1e6}


def imports(modules: Sequence[str] = MODULES, rounds: int = 3) -> tuple[Imported, ...]:
    """Import modules in a fresh interpreter, a number of times, and tell the packages that took the time.

    The interpreter tells it itself (``python -X importtime``), and takes a little longer for it. The first round is
    left out: it reads the files from the disk.

    Parameters
    ----------
    modules : sequence of str
        In order.
    rounds : int
        Of which the median is taken, package by package.

    Returns
    -------
    tuple of Imported
        `WHOLE` first, then the longest first, `OTHERS` last.

    Raises
    ------
    InputError
        If a module cannot be imported, or there is no round.
    """
    if rounds < 1:
        raise InputError(f"{rounds} rounds cannot be timed; give one or more.")
    told = [by_package(_importtime(modules)) for _ in range(rounds + 1)][1:]
    times = {name: median(one[name][0] if name in one else 0.0 for one in told) for name in told[0]}
    whole = median(sum(seconds for seconds, _ in one.values()) for one in told)
    long = {name: seconds for name, seconds in times.items() if seconds >= LEAST * whole}
    rows = [Imported(name, long[name], " > ".join(told[0][name][1])) for name in sorted(long, key=lambda x: -long[x])]
    return (Imported(WHOLE, whole), *rows, Imported(OTHERS, sum(times.values()) - sum(long.values())))


def by_package(told: str) -> dict[str, tuple[float, tuple[str, ...]]]:
    """Return what ``-X importtime`` told, package by package: seconds of its own, and the packages that led to it.

    A module stands behind those that it imports, and further to the left.
    """
    found: dict[str, tuple[float, tuple[str, ...]]] = {}
    above: list[str] = []
    for line in reversed(told.splitlines()):
        parts = line.removeprefix("import time:").split("|")
        if not line.startswith("import time:") or not parts[0].strip().isdigit():
            continue
        depth = (len(parts[2]) - len(parts[2].lstrip()) - 1) // 2
        package = parts[2].strip().partition(".")[0]
        del above[depth:]
        seconds = found[package][0] if package in found else 0.0
        way = tuple(name for name in dict.fromkeys(above) if name != package)
        found[package] = (seconds + int(parts[0]) / 1e6, way)  # of the ways to it the first, which is read last
        above.append(package)
    return found


def kept(exported: Exported, inputs: Arrays, names: Sequence[str]) -> Iterator[Kept | tuple[str, str]]:
    """Export to each backend into an empty folder, and again; yield what it took, or the name and why it is not here.

    Parameters
    ----------
    exported : Exported
        The program, whose own export is not counted.
    inputs : mapping
        Name -> tensor.
    names : sequence of str
        Keys of `BACKENDS`.
    """
    for name in names:
        runtime = backend(name)
        if reason := absence(runtime):
            yield name, reason
            continue
        with TemporaryDirectory() as room, quietly():
            made, first = timed(partial(runtime.export, exported, inputs, Path(room)))
            _, again = timed(partial(runtime.export, exported, inputs, Path(room)))
            told = (name, str(made)) if isinstance(made, Failure) else Kept(name, first, again, made.size)
        yield told


def _importtime(modules: Sequence[str]) -> str:
    lines = "; ".join(f"import {name}" for name in modules)
    command = [sys.executable, "-X", "importtime", "-c", lines]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1]
        raise InputError(f"{', '.join(modules)} cannot be imported: {last}.")
    return done.stderr
