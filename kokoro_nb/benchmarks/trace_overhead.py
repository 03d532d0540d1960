"""What looking costs: a run with the statistics of every operator against the plain run, in time and memory.

The memory of a run is how far the process grew while it ran: Linux keeps the highest mark of its resident memory
(``VmHWM``) and takes it back when asked (proc(5), ``/proc/pid/clear_refs``).
"""

import ctypes
import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
HOOKS = "DebugUnderflowOverflow (modules)"
OUTPUTS = "results as outputs, no statistics"
_MARK = Path("/proc/self/clear_refs")


@dataclass(frozen=True)
class Cost:
    """One way of looking against the plain run, both measured in turn.

    Attributes
    ----------
    what : str
        The backend, and how it was looked into.
    operators : int
        How many were seen.
    plain, looked : float
        Wall time of the fastest call, seconds.
    plain_memory, looked_memory : float
        How far the process grew while the program was loaded and run once, MB; NaN where the system does not tell.
    """

    what: str
    operators: int
    plain: float
    looked: float
    plain_memory: float
    looked_memory: float

    def as_dict(self) -> dict[str, Any]:
        """Return the row of a table, with units in its keys."""
        return {
            "what": self.what,
            "operators seen": self.operators,
            "plain (s)": self.plain,
            "looked into (s)": self.looked,
            "time ratio": self.looked / self.plain,
            "plain grows by (MB)": self.plain_memory,
            "looked into grows by (MB)": self.looked_memory,
        }


def trace_cost(
    exported: Exported, inputs: Arrays, names: Sequence[str], calls: int = 5, folder: str | Path | None = None
) -> tuple[Cost, ...]:
    """Measure a statistics trace of all operators on each backend, and two common ways of looking beside it.

    Those are Hugging Face's ``DebugUnderflowOverflow``, which hooks every module, and ONNX Runtime with every
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
        Where artefacts are kept.

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
    return tuple(rows)


def _loaded(name: str, exported: Exported, inputs: Arrays, folder: str | Path | None) -> Any:
    runtime = running(backend(name))
    artifact = runtime.export(exported, inputs, folder)
    if isinstance(artifact, Failure):
        raise InputError(f"There is nothing to measure: {artifact}")
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
    looked: Callable[[Any, Arrays], Call],
    inputs: Arrays,
    calls: int,
) -> Cost:
    memory = [_grown(lambda way=way: way(load(), inputs)()) for way in (plain, looked)]  # type: ignore[misc]
    bare, tapped = plain(load(), inputs), looked(load(), inputs)
    pairs = [(timed(bare)[1], timed(tapped)[1]) for _ in range(calls + 1)][1:]  # the first call warms up
    return Cost(what, seen, *(min(times) for times in zip(*pairs, strict=True)), *memory)


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
