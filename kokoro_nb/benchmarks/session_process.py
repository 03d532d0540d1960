"""A process with one session or several, which imports what the runtime needs and nothing else.

Run as ``python -m kokoro_nb.benchmarks.session_process FOLDER`` it answers the request in that folder line by line:
``load``, then ``call`` and ``memory``.
"""

import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.backends.fresh_process import read_request
from kokoro_nb.benchmarks.requested_calls import requested_call

CALLS = 3  # of each session


def _serve(folder: Path) -> None:
    """Answer line by line until there are no more."""
    # what libraries print is no answer
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    request, calls = read_request(folder), []
    pool = ThreadPoolExecutor(request["sessions"])
    for line in sys.stdin:
        match line.strip():
            case "load":
                calls = [requested_call(request, folder) for _ in range(request["sessions"])]
                for call in calls:
                    call()
                answer: Any = True
            case "call":
                starts, ends = zip(*pool.map(_span, calls), strict=True)
                answer = float(np.min(starts)), float(np.max(ends))
            case "memory":
                answer = _memory()
        print(json.dumps(answer), file=answers, flush=True)


def _span(call: Any) -> tuple[float, float]:
    """Call a session and return when that began and ended, on a clock that all processes share."""
    start = time.clock_gettime(time.CLOCK_MONOTONIC)
    for _ in range(CALLS):
        call()
    return start, time.clock_gettime(time.CLOCK_MONOTONIC)


def _memory() -> float:
    """Return this process's proportional set size, MB: see proc(5), ``smaps_rollup``."""
    import psutil

    return float(psutil.Process().memory_full_info().pss) / 1e6


if __name__ == "__main__":
    _serve(Path(sys.argv[1]))
