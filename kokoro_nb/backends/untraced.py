"""The trace of a runtime that shows nothing of what it computes on the way: its outputs, and everything missing."""

from pathlib import Path
from typing import Any

from kokoro_nb.backends.signature import Arrays, checked
from kokoro_nb.backends.taps import read_taps
from kokoro_nb.traces.operators import Taps
from kokoro_nb.traces.trace import Keep, Trace

HOW = "not at all: this runtime shows no results but the outputs; compile the program with further outputs"


def untraced(backend: str, program: Any, path: Path, inputs: Arrays, taps: Taps, keep: Keep) -> Trace:
    """Run `program` once and return a trace in which all that is asked for is missing.

    Parameters
    ----------
    backend : str
        Name of the backend.
    program : Program
        Loaded from `path`.
    path : Path
        The model file; the list of operators is beside it.
    inputs : mapping
        As for `base.Program.run`.
    taps, keep
        As for `base.Program.trace`.

    Raises
    ------
    InputError
        As `base.Program.trace` does.
    """
    recorder = read_taps(path.parent).recorder(taps, keep)
    return recorder.trace(backend, checked(inputs, program.inputs), program.run(inputs), HOW)
