"""A process for Qualcomm's libraries, kept at a distance: it may print, and it may die."""

import os
import pickle
import re
import signal
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from kokoro_nb.errors import noted
from kokoro_nb.run_apart import SAFELY

_START = re.compile(r"^(?:\x1b\[[0-9;]*m)?\d{4}-\d\d-\d\d [\d:.]+ \[([VIWEF]):[^\]]*\] ?", re.MULTILINE)
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_OPTION = re.compile(r"User specified (?:ep\.\w+\.)?(\w+): (\S+)$")
_VALIDATION = re.compile(r"Validation (PASSED|FAILED) for \d+ nodes in ")
_NODE = re.compile(r"\tOperator type: (\S+) Node name: (.*) Node index: \d+")
_REASON = re.compile(r"\tREASON : (.*)")


@dataclass(frozen=True)
class Validation:
    """What the provider said of one node by itself, before it looked at the graph around it."""

    name: str
    op: str
    passed: bool  # whether the NPU could compute it
    reason: str = ""  # why not, in the provider's words


def records(log: str) -> Iterator[tuple[str, str]]:
    r"""Yield level (``V``, ``I``, ``W``, ``E``, ``F``) and text of each record; what precedes the first has no level.

    Text that native code prints in between belongs to the record before it.

    >>> list(records("hello\n2026-11-21 13:14:22.7 [E:onnxruntime:, a.cc:1 f] No.\nNot so.\n"))
    [('', 'hello'), ('E', 'a.cc:1 f] No.\nNot so.')]
    """
    starts = [*_START.finditer(log)]
    ends = [*(start.start() for start in starts), len(log)]
    yield "", log[: ends[0]].strip()
    for start, end in zip(starts, ends[1:], strict=True):
        where = start.group().rpartition("[")[2].partition(", ")[2].rstrip()
        yield start.group(1), where + " " + _COLOUR.sub("", log[start.end() : end]).strip()


def complaints(log: str, levels: str = "WEF") -> list[str]:
    """Return what was said at `levels`, without the place in the source."""
    return [text.partition("] ")[2] for level, text in records(log) if level and level in levels]


def options_taken(log: str) -> dict[str, str]:
    """Return the value of each provider option as the provider says that it read it."""
    found = (_OPTION.search(text) for level, text in records(log) if level == "V")
    return {match[1]: match[2] for match in found if match}


def validations(log: str) -> dict[str, Validation]:
    """Return the provider's verdict on each node by name; the first, if it looked at one more than once.

    It looks at the graph twice, the second time after its own change to channels-last layout.
    """
    verdicts: dict[str, Validation] = {}
    for level, text in records(log):
        head = _VALIDATION.search(text) if level == "V" else None
        if head:
            lines = text.splitlines()
            reason = next((match[1] for line in lines if (match := _REASON.match(line))), "")
            for line in lines:
                if match := _NODE.match(line):
                    verdicts.setdefault(match[2], Validation(match[2], match[1], head[1] == "PASSED", reason))
    return verdicts


WORKER = Path(__file__).with_name("qnn_worker.py")


class QnnError(RuntimeError):
    """The provider, or one of the libraries under it, refused or failed; what they printed is in the notes."""


class Worker:
    """One such process; it holds at most one session, and ends with this object."""

    def __init__(self) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 -- closed with the process
        self._process = subprocess.Popen(
            [sys.executable, *SAFELY, str(WORKER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log
        )
        self.close = weakref.finalize(self, _end, self._process, self._log)

    def ask(self, action: str, **arguments: Any) -> Any:
        """Have `qnn_worker.ACTIONS[action]` done there and return its result.

        Raises
        ------
        QnnError
            If it raises an exception there, or the process dies of it.
        """
        before = self._size()
        requests, answers = self._process.stdin, self._process.stdout
        assert requests is not None
        assert answers is not None
        try:
            pickle.dump((action, arguments), requests)
            requests.flush()
            fine, result = pickle.load(answers)
        except (EOFError, BrokenPipeError, pickle.UnpicklingError) as error:
            how = _how(self._process.wait())
            words = f"The process in which Qualcomm's libraries run {how} during '{action}'."
            raise self._noted(QnnError(words), before) from error
        if not fine:
            raise self._noted(QnnError(": ".join(result)), before)
        return result

    def log(self, start: int = 0) -> str:
        """Return what was printed there, from byte `start` on."""
        return os.pread(self._log.fileno(), self._size() - start, start).decode(errors="replace")

    def _size(self) -> int:
        return os.fstat(self._log.fileno()).st_size

    def _noted(self, error: QnnError, start: int) -> QnnError:
        """Add to `error` what was printed from byte `start` on, but for the chatter of a verbose log."""
        said = (text for level, text in records(self.log(start)) if level not in ("V", "I") and text)
        return noted(error, "\n".join(said))

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _how(code: int) -> str:
    """Say how a process ended.

    >>> _how(-11), _how(1)
    ('died of SIGSEGV', 'ended with status 1')
    """
    return f"died of {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"


def _end(process: subprocess.Popen[bytes], log: IO[bytes]) -> None:
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout, log):
        if stream is not None:
            with suppress(BrokenPipeError):  # of a request that it did not live to read
                stream.close()
