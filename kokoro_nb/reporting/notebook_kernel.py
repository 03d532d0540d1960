"""The kernel that notebooks are run in: IPython's own, with crash reports, a profile and without import noise."""

import faulthandler
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from kokoro_nb.errors import InputError
from kokoro_nb.known_warnings import silence_known_warnings
from kokoro_nb.reporting.logbook import OUT_DIR
from kokoro_nb.reporting.runs import SECONDS
from kokoro_nb.storage import write_json
from kokoro_nb.time_spent import seconds


def main() -> None:
    """Start the kernel in this process, as ``python -m ipykernel_launcher`` would."""
    silence_known_warnings()
    # A copy of standard error, for the kernel turns the original into output of the notebook.
    faulthandler.enable(os.fdopen(os.dup(2), "w"), all_threads=False)
    from ipykernel.kernelapp import IPKernelApp

    kernel = IPKernelApp.instance()
    kernel.initialize()
    if folder := os.environ.get(OUT_DIR):
        begun = time.perf_counter()
        events: Any = kernel.shell.events  # type: ignore[union-attr]
        events.register("post_run_cell", lambda _: _write(Path(folder), time.perf_counter() - begun))
    kernel.start()


def _write(folder: Path, wall: float) -> None:
    """Write where the time of the notebook has gone so far, for the record of its run."""
    with suppress(InputError):  # the folder is gone or full: then there is no profile
        write_json(folder / SECONDS, {**seconds(), "cells": wall})


if __name__ == "__main__":
    main()
