"""A process for another tool: it answers one case after another, may print, hang or die, and is then begun anew."""

import json
import select
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO, Any


class PeerProcess:
    """At most one such process: another tool ends the one before, as does leaving the context.

    Parameters
    ----------
    command : sequence of str
        What is run with the tool's name behind it: `peer_tools` by default.
    """

    def __init__(self, command: Sequence[str] = (sys.executable, "-m", f"{__package__}.peer_tools")) -> None:
        self._command, self._tool = command, ""
        self._process: subprocess.Popen[bytes] | None = None
        self._printed: IO[bytes] | None = None

    def ask(self, tool: str, case: Mapping[str, str], limit: float) -> tuple[Any, str]:
        """Return what a tool of `peer_tools` answers, and why there is no answer.

        Parameters
        ----------
        tool : str
            Name in `peer_tools.TOOLS`.
        case : mapping of str to str
            Its arguments.
        limit : float
            In s: a process that takes longer is ended.
        """
        process = self._begun(tool)
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(BrokenPipeError):  # it died since: the line that it does not write tells it
            process.stdin.write(json.dumps(case).encode() + b"\n")
            process.stdin.flush()
        if not select.select([process.stdout], [], [], limit)[0]:
            self.close()
            return None, f"no answer in {limit:.0f} s"
        try:
            answer = json.loads(process.stdout.readline())
        except json.JSONDecodeError:
            words = self._last_words()
            self.close()
            return None, words
        return answer.get("answer"), answer.get("error", "")

    def close(self) -> None:
        """End it."""
        if self._process is not None and self._printed is not None:
            self._process.kill()
            self._process.wait()
            for stream in (self._process.stdin, self._process.stdout, self._printed):
                if stream is not None:
                    with suppress(BrokenPipeError):
                        stream.close()
        self._process = self._printed = None

    def __enter__(self) -> "PeerProcess":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _begun(self, tool: str) -> subprocess.Popen[bytes]:
        if self._process is None or self._tool != tool or self._process.poll() is not None:
            self.close()
            self._tool, self._printed = tool, tempfile.TemporaryFile()  # noqa: SIM115 -- closed with the process
            self._process = subprocess.Popen(
                [*self._command, tool],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._printed,
            )
        return self._process

    def _last_words(self) -> str:
        assert self._process is not None
        assert self._printed is not None
        status = self._process.wait()
        self._printed.seek(0)
        lines = [line for line in self._printed.read().decode(errors="replace").splitlines() if line.strip()]
        return f"its process ended with {status}" + (f": {lines[-1][:200]}" if lines else "")
