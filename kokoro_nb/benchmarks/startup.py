"""Time before anything is computed: imports, and exports that are made again or found in the cache."""

import subprocess
import sys
from collections.abc import Sequence
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
PACKAGE, SECONDS, IMPORTED_BY = "package", "import (s)", "imported by"


def imports(modules: Sequence[str] = MODULES, rounds: int = 3) -> list[dict[str, Any]]:
    """Import modules in a fresh interpreter, a number of times, and return the time of each package.

    The interpreter measures it itself (``python -X importtime``), and takes a little longer for it. The first round is
    left out: it reads the files from the disk.

    Parameters
    ----------
    modules : sequence of str
        In order.
    rounds : int
        Of which the median is taken, package by package.

    Returns
    -------
    list of dict
        Rows of a table, `WHOLE` first, then the longest first, `OTHERS` last: seconds in a package's own modules, and
        in the C libraries that they load, without what they import of other packages; and the packages that led to it
        first, from the outermost on.

    Raises
    ------
    InputError
        If a module cannot be imported, or there is no round.
    """
    if rounds < 1:
        raise InputError(f"{rounds} rounds cannot be timed; give one or more.")
    output = [by_package(_importtime(modules)) for _ in range(rounds + 1)][1:]
    times = {name: median(one[name][0] if name in one else 0.0 for one in output) for name in output[0]}
    whole = median(sum(seconds for seconds, _ in one.values()) for one in output)
    long = {name: seconds for name, seconds in times.items() if seconds >= LEAST * whole}
    figures = {WHOLE: whole, **dict(sorted(long.items(), key=lambda item: -item[1]))}
    figures[OTHERS] = sum(times.values()) - sum(long.values())
    return [
        {PACKAGE: name, SECONDS: each, IMPORTED_BY: " > ".join(output[0][name][1]) if name in long else ""}
        for name, each in figures.items()
    ]


def by_package(output: str) -> dict[str, tuple[float, tuple[str, ...]]]:
    """Return the output of ``-X importtime`` by package: seconds of its own, and the packages that led to it.

    A module stands behind those that it imports, and further to the left.
    """
    found: dict[str, tuple[float, tuple[str, ...]]] = {}
    above: list[str] = []
    for line in reversed(output.splitlines()):
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


def cached_exports(
    exported: Exported, inputs: Arrays, names: Sequence[str]
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Export to each backend into an empty folder, and again; return the rows of a table, and whom it skipped and why.

    Parameters
    ----------
    exported : Exported
        The program, whose own export is not counted.
    inputs : mapping
        Name -> tensor.
    names : sequence of str
        Keys of `BACKENDS`.
    """
    rows, skipped = [], {}
    for name in names:
        runtime = backend(name)
        if reason := absence(runtime):
            skipped[name] = reason
            continue
        with TemporaryDirectory() as room, quietly():
            made, first = timed(partial(runtime.export, exported, inputs, Path(room)))
            _, again = timed(partial(runtime.export, exported, inputs, Path(room)))
            if isinstance(made, Failure):
                skipped[name] = str(made)
                continue
            row = {"program": name, "made (s)": first, "found (s)": again, "x made": again / first}
            rows.append({**row, "size (MB)": made.size / 1e6})
    return rows, skipped


def _importtime(modules: Sequence[str]) -> str:
    lines = "; ".join(f"import {name}" for name in modules)
    command = [sys.executable, "-X", "importtime", "-c", lines]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1]
        raise InputError(f"{', '.join(modules)} cannot be imported: {last}.")
    return done.stderr
