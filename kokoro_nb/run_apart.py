"""Python in a process of its own, which may crash, hang or take another interpreter without harm to this one."""

import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kokoro_nb.errors import InputError

_LISTING = """
import importlib.metadata, json
every = reversed(list(importlib.metadata.distributions()))  # the first on the path is what is imported
print(json.dumps({one.metadata["Name"]: one.version for one in every}))
"""
SAFELY = ["-P"] if sys.version_info >= (3, 11) else []  # a script's own folder is no place to import from


@dataclass(frozen=True)
class ProcessResult:
    """How a process ended.

    Attributes
    ----------
    status : int or None
        Its exit status, the negative number of a signal; None if its time was up.
    stdout, stderr : str
        What it printed, and what it printed as errors.
    """

    status: int | None
    stdout: str
    stderr: str

    @property
    def last_line(self) -> str:
        """The last line that it printed, errors before the rest; its exit status if it printed nothing."""
        lines = (self.stderr.strip() or self.stdout.strip()).splitlines()
        return lines[-1] if lines else f"exit status {self.status}"


def run_apart(
    arguments: Sequence[str | Path],
    python: str | Path = sys.executable,
    seconds: float | None = None,
    folder: str | Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> ProcessResult:
    """Run Python in a process of its own, wait for it, and return how it ended.

    Parameters
    ----------
    arguments : sequence of str or path
        Of the interpreter: options, a script or ``-m`` and a module, and theirs.
    python : path
        The interpreter; this one by default.
    seconds : float, optional
        After which it is killed.
    folder : path, optional
        Its working directory; that of this process by default.
    environment : mapping, optional
        Its environment; that of this process by default.
    """
    try:
        done = subprocess.run(
            [str(python), *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            cwd=folder,
            env=environment,
        )
    except subprocess.TimeoutExpired as late:
        return ProcessResult(None, *((text or b"").decode(errors="replace") for text in (late.stdout, late.stderr)))
    return ProcessResult(done.returncode, done.stdout, done.stderr)


def installed(python: str | Path) -> dict[str, str]:
    """Return the version of each distribution that an interpreter has, by the name that package tools know (PEP 503).

    Raises
    ------
    InputError
        If it is no interpreter of Python that can be started.
    """
    try:
        found = json.loads(run_apart(["-I", "-c", _LISTING], python, 60).stdout)
    except (OSError, ValueError) as error:
        raise InputError(f"{python} is not a Python interpreter that can be started; give bin/python.") from error
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in found.items()}
