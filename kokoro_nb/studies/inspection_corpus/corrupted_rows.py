"""Each damaged file inspected in a process of its own: whether it ends in a sentence or a report, and what it took."""

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

    The memory is at least that of this process, of which the command begins as a copy.
    """
    start = time.perf_counter()
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen([*command, str(path)], stdout=out, stderr=err, start_new_session=True)
        ended = 0
        while not ended and time.perf_counter() - start < SECONDS:
            ended, status, usage = os.wait4(process.pid, os.WNOHANG)
            time.sleep(0.02)
        if not ended:
            os.killpg(process.pid, signal.SIGKILL)
            _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        texts = []
        for stream in (out, err):
            stream.seek(0)
            texts.append(stream.read())
    seconds, memory = time.perf_counter() - start, usage.ru_maxrss * 1024 / 1e9
    if not ended:
        return "hang", seconds, memory, f"nothing in {SECONDS:.0f} s"
    outcome, said = _outcome(process.returncode, *texts)
    return outcome, seconds, memory, said


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
