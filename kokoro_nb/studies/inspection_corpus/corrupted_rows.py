"""Each damaged file inspected in a process of its own: whether it ends in a sentence or a report, and what it took."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from kokoro_nb.studies.inspection_corpus.corrupted_entries import CorruptedFile

SECONDS = 60.0  # after which an inspection is taken for hung
MEMORY = 4.0  # GB (10**9 bytes)
OUTCOMES = ("sentence", "report", "hang", "wrong")


@dataclass(frozen=True)
class CorruptedRow:
    """How the inspection of one damaged file ended.

    Attributes
    ----------
    case, kind : str
        Name of the file, and format with damage.
    outcome : str
        ``sentence``, ``report``, ``hang``, or ``wrong`` for anything else.
    seconds : float
        Wall time.
    memory : float
        Most resident memory of the command and of what it started, GB (10**9 bytes).
    said : str
        The sentence, the headline of the report, or the end of what was printed.
    """

    case: str
    kind: str
    outcome: str
    seconds: float
    memory: float
    said: str

    @property
    def sound(self) -> bool:
        """Whether it is a sentence or a report, in time and within the memory."""
        return self.outcome in ("sentence", "report") and self.seconds <= SECONDS and self.memory <= MEMORY


def corrupted_row(one: CorruptedFile) -> CorruptedRow:
    """Write a damaged file, and inspect it by the command."""
    with tempfile.TemporaryDirectory() as room:
        path = one.written(Path(room))
        outcome, seconds, memory, said = inspected(path)
    return CorruptedRow(one.name, one.kind, outcome, seconds, memory, said.replace(f"{room}/", ""))


def ends_of(rows: Sequence[CorruptedRow]) -> list[dict[str, Any]]:
    """Return a row for each kind of damage with how many files ended in what; the last one is of all."""
    found = []
    for kind in (*dict.fromkeys(row.kind for row in rows), "all"):
        these = [row for row in rows if kind in (row.kind, "all")]
        ends = Counter(row.outcome for row in these)
        found.append(
            {
                "kind": kind,
                **{one: ends[one] for one in OUTCOMES},
                "seconds at most": float(np.max([row.seconds for row in these])),
                "GB at most": float(np.max([row.memory for row in these])),
            }
        )
    return found


COMMAND = (sys.executable, "-m", "kokoro_nb", "inspect")


def inspected(path: Path, command: Sequence[str] = COMMAND) -> tuple[str, float, float, str]:
    """Inspect a file by ``kokoro-nb inspect`` and return outcome, seconds, GB and what was said.

    The memory is sampled: the kernel's own highest mark of a process begins with that of the one that started it.
    """
    start = time.perf_counter()
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen([*command, str(path)], stdout=out, stderr=err, start_new_session=True)
        memory, ended = 0.0, False
        while not ended and time.perf_counter() - start < SECONDS:
            memory = float(np.maximum(memory, _resident(process.pid) / 1e9))
            time.sleep(0.02)
            ended = process.poll() is not None
        if not ended:
            os.killpg(process.pid, signal.SIGKILL)
        code = process.wait()
        texts = []
        for stream in (out, err):
            stream.seek(0)
            texts.append(stream.read())
    seconds = time.perf_counter() - start
    if not ended:
        return "hang", seconds, memory, f"nothing in {SECONDS:.0f} s"
    outcome, said = _outcome(code, *texts)
    return outcome, seconds, memory, said


def _resident(pid: int) -> int:
    """Return how many bytes a process and those that it started have in memory now; 0 if it has ended."""
    found = 0
    with contextlib.suppress(psutil.Error):
        for one in (psutil.Process(pid), *psutil.Process(pid).children(recursive=True)):
            with contextlib.suppress(psutil.Error):
                found += one.memory_info().rss
    return found


def _outcome(code: int, out: str, err: str) -> tuple[str, str]:
    """Return what a command's end is, and what it said.

    A sentence is one line of error with status 2. A report is printed with 0 or 1, and has a reason for each node that
    it did not judge.
    """
    lines = err.strip().splitlines()
    if code == 2 and not out and len(lines) == 1 and lines[0].startswith("kokoro-nb: "):
        return "sentence", lines[0].removeprefix("kokoro-nb: ")
    counted = re.search(r"([\d,]+) of ([\d,]+) nodes judged", out)
    if code in (0, 1) and not lines and counted:
        judged, nodes = (int(one.replace(",", "")) for one in counted.groups())
        if judged == nodes or "not judged" in out.replace(counted[0], "") or "The time was up" in out:
            return "report", out.splitlines()[0]
    return "wrong", f"exit status {code}: {' '.join((err or out).split())[-300:]}"
