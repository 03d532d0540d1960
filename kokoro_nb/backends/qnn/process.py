"""A process for Qualcomm's libraries, kept at a distance: it may print, and it may die."""

import os
import pickle
import signal
import subprocess
import sys
import tempfile
import weakref
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from kokoro_nb.backends.qnn.log import records

WORKER = Path(__file__).with_name("qnn_worker.py")


class QnnError(RuntimeError):
    """The provider, or one of the libraries under it, refused or failed; what they printed is in the notes."""


class Worker:
    """One such process; it holds at most one session, and ends with this object."""

    def __init__(self) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 -- closed with the process
        self._process = subprocess.Popen(
            # -P: the worker's own folder is no place to import from
            [sys.executable, "-P", str(WORKER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
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
        printed = "\n".join(text for level, text in records(self.log(start)) if level not in ("V", "I") and text)
        if printed:
            error.add_note(printed)
        return error

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
