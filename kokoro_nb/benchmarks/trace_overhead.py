"""Overhead of tracing: a run with the statistics of every operator against a plain run, in time and memory.

The memory of a run is how far the process grew while it ran: Linux keeps the highest mark of its resident memory
(``VmHWM``) and resets it on request (proc(5), ``/proc/pid/clear_refs``).
"""

import ctypes
import gc
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from kokoro_nb.backends import backend
from kokoro_nb.backends.base import Failure, quietly, running
from kokoro_nb.backends.exported import Exported
from kokoro_nb.backends.onnx import OnnxProgram
from kokoro_nb.backends.signature import Arrays, checked
from kokoro_nb.backends.taps import read_taps
from kokoro_nb.benchmarks.interleaved import timed
from kokoro_nb.benchmarks.memory import resident
from kokoro_nb.errors import InputError

Call = Callable[[], Any]
TIME_RATIO = "time ratio"
HOOKS = "DebugUnderflowOverflow (modules)"
OUTPUTS = "results as outputs, no statistics"
_MARK = Path("/proc/self/clear_refs")


def trace_cost(
    exported: Exported, inputs: Arrays, names: Sequence[str], calls: int = 5, folder: str | Path | None = None
) -> list[dict[str, Any]]:
    """Measure a statistics trace of all operators on each backend, and two common alternatives beside it.

    These are Hugging Face's ``DebugUnderflowOverflow``, which hooks every module, and ONNX Runtime with every
    operator's result as an output, without statistics.

    Parameters
    ----------
    exported : Exported
        The program.
    inputs : mapping
        Name -> tensor.
    names : sequence of str
        Keys of `BACKENDS`, of backends that show their operators.
    calls : int
        Calls of each kind, in turn.
    folder : path, optional
        Where artefacts are saved.

    Returns
    -------
    list of dict
        Rows of a table: wall time of the fastest call in seconds, and how far the process grew while the program was
        loaded and run once in MB, NaN where the system does not say; each plain, and with a trace.

    Raises
    ------
    InputError
        If a backend is not here, or cannot export the program.
    """
    rows = []
    for name in names:
        load = partial(_loaded, name, exported, inputs, folder)
        seen = len(load().trace(inputs).taps)
        rows.append(_cost(name, seen, load, _run, _trace, inputs, calls))
        if name == "eager":
            rows.append(_cost(f"{name}, {HOOKS}", _modules(load()), load, _run, _hooked, inputs, calls))
        if name == "onnxruntime":
            rows.append(_cost(f"{name}, {OUTPUTS}", seen, load, _run, _all_outputs, inputs, calls))
    return rows


def _loaded(name: str, exported: Exported, inputs: Arrays, folder: str | Path | None) -> Any:
    runtime = running(backend(name))
    artifact = runtime.export(exported, inputs, folder)
    if isinstance(artifact, Failure):
        raise InputError(f"{name} cannot be measured: {artifact}")
    return runtime.load(artifact)


def _run(program: Any, inputs: Arrays) -> Call:
    return lambda: program.run(inputs)


def _trace(program: Any, inputs: Arrays) -> Call:
    return lambda: program.trace(inputs)


def _hooked(program: Any, inputs: Arrays) -> Call:
    from transformers.debug_utils import DebugUnderflowOverflow

    with quietly():
        DebugUnderflowOverflow(program.module, max_frames_to_save=1)
    return lambda: program.run(inputs)


def _modules(program: Any) -> int:
    return sum(1 for _ in program.module.modules())


def _all_outputs(program: OnnxProgram, inputs: Arrays) -> Call:
    session = program.tapped(frozenset(read_taps(program.path.parent).places.values()))
    names = [node.name for node in session.get_inputs()]
    fed = dict(zip(names, checked(inputs, program.inputs).values(), strict=True))
    return lambda: session.run(None, fed)


def _cost(
    what: str,
    seen: int,
    load: Callable[[], Any],
    plain: Callable[[Any, Arrays], Call],
    traced: Callable[[Any, Arrays], Call],
    inputs: Arrays,
    calls: int,
) -> dict[str, Any]:
    memory = [_grown(lambda way=way: way(load(), inputs)()) for way in (plain, traced)]  # type: ignore[misc]
    bare, tapped = plain(load(), inputs), traced(load(), inputs)
    pairs = [(timed(bare)[1], timed(tapped)[1]) for _ in range(calls + 1)][1:]  # the first call warms up
    bare_seconds, traced_seconds = (min(times) for times in zip(*pairs, strict=True))
    return {
        "program": what,
        "operators seen": seen,
        "plain (s)": bare_seconds,
        "traced (s)": traced_seconds,
        TIME_RATIO: traced_seconds / bare_seconds,
        "plain grows by (MB)": memory[0],
        "traced grows by (MB)": memory[1],
    }


def _grown(call: Call) -> float:
    """Return how far the process grew during a call, MB, after it has given back what it does not use."""
    gc.collect()
    try:
        ctypes.CDLL(None).malloc_trim(0)
        before = _MARK.write_text("5") and resident("VmRSS")
        call()
        return resident("VmHWM") - before
    except (OSError, AttributeError):
        return float("nan")
