"""ExecuTorch's event tracer: the results of all instructions of one run, written by a process of its own."""

import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.backends.base import quietly
from kokoro_nb.backends.executorch.tracer import AGAIN, EVENTS, INPUTS, OUTPUTS, TENSORS
from kokoro_nb.backends.taps import laid, read_taps
from kokoro_nb.run_apart import run_apart
from kokoro_nb.storage import read_json
from kokoro_nb.traces.operators import Taps
from kokoro_nb.traces.trace import Keep, Trace

ROOM = "tracing.json"
HOW = "ExecuTorch's event tracer, outside delegates"
_TRACER = Path(__file__).with_name("tracer.py")
DTYPES = {
    "BYTE": "uint8",
    "CHAR": "int8",
    "SHORT": "int16",
    "INT": "int32",
    "LONG": "int64",
    "HALF": "float16",
    "FLOAT": "float32",
    "DOUBLE": "float64",
    "BOOL": "bool",
}


def traced(
    backend: str,
    program: Path,
    inputs: Mapping[str, np.ndarray],
    dtypes: Sequence[str],
    outputs: Sequence[str],
    taps: Taps,
    keep: Keep,
) -> Trace:
    """Run the file `program` once in a process of its own, with the event tracer on; inputs are of these dtypes.

    Raises
    ------
    RuntimeError
        If the process fails; with what it printed.
    """
    known = read_taps(program.parent)
    recorder, wanted = known.recorder(taps, keep), known.wanted(taps)
    size = int(read_json(program.with_name(ROOM), "size of the tracer's buffer")["bytes"])
    run = logged_run(program, inputs, size, dtypes=dtypes)
    results, logged = dict(zip(outputs, run.outputs, strict=True)), run.logged
    shapes = {operator.name: operator.shape for operator in known.operators}
    for name, (instruction, place) in wanted.items() if logged else ():  # of what is damaged nothing is shown
        recorder.add(name, laid(logged[instruction][place], shapes[name]))
    return recorder.trace(backend, inputs, results, HOW)


@dataclass(frozen=True, eq=False)
class LoggedRun:
    """One run with the event tracer on: the outputs, what each instruction logged, and the outputs of a second call."""

    outputs: list[np.ndarray]
    logged: dict[int, list[np.ndarray]]
    again: list[np.ndarray]


def logged_run(
    program: Path, inputs: Mapping[str, np.ndarray], size: int, again: bool = False, dtypes: Sequence[str] = ()
) -> LoggedRun:
    """Run a file once in a process of its own.

    Parameters
    ----------
    program : path
        A ``.pte`` file.
    inputs : mapping of str to numpy.ndarray
        In the order of the program.
    size : int
        Bytes of the tracer's buffer; too few abort the process.
    again : bool
        Call it twice more without the tracer, and return what the second call gives.
    dtypes : sequence of str
        Of each input, where it is another than that of its array: bfloat16 is held in float32.

    Raises
    ------
    RuntimeError
        If the process fails; with what it printed.
    """
    with tempfile.TemporaryDirectory() as room:
        folder = Path(room)
        kinds = dtypes or [str(array.dtype) for array in inputs.values()]
        given = zip(kinds, inputs.values(), strict=True)
        named: dict[str, Any] = {f"{place}_{kind}": array for place, (kind, array) in enumerate(given)}
        np.savez(folder / INPUTS, **named)
        run_logged(program, size, folder, again)
        buffer = np.fromfile(folder / TENSORS, np.uint8)
        events = _logged(folder / EVENTS)
        logged = {number: [_tensor(buffer, one) for one in tensors] for number, tensors in events.items()}
        return LoggedRun(_stored(folder / OUTPUTS), logged, _stored(folder / AGAIN) if again else [])


def _stored(path: Path) -> list[np.ndarray]:
    with np.load(path) as stored:
        return [stored[name] for name in stored.files]


def run_logged(program: Path, size: int, folder: Path, again: bool) -> None:
    """Run a program on the ``inputs.npz`` of a folder in a process of its own, which writes there what it logs.

    Parameters
    ----------
    program : Path
        A ``.pte`` file.
    size : int
        Bytes that its tracer may take.
    folder : Path
        Where the tracer's files go.
    again : bool
        Run it once more without the tracer.

    Raises
    ------
    RuntimeError
        If the process fails; with what it printed.
    """
    # -P: the script's own folder is no place to import from
    done = run_apart(["-P", _TRACER, program, str(size), folder, *(["again"] if again else [])])
    if done.status != 0:
        how = f"ended with {done.status}"
        if done.status == -signal.SIGABRT:
            how = f"was aborted, perhaps because its buffer of {size} bytes is too small"
        raise RuntimeError(f"The process that traced {program.name} {how}: {done.said.strip()}")


def _logged(path: Path) -> dict[int, list[Any]]:
    """Return the tensors that each instruction of the outermost chain logged, in order; none if they cannot be read."""
    from executorch.devtools.etdump.serialize import deserialize_from_etdump_flatcc

    found: dict[int, list[Any]] = {}
    try:
        with quietly():
            runs = deserialize_from_etdump_flatcc(path.read_bytes()).run_data
    except subprocess.CalledProcessError:  # what ExecuTorch's tracer writes of a float16 tensor is damaged
        return {}
    for run in runs:
        for event in (event.debug_event for event in run.events or () if event.debug_event is not None):
            if event.chain_index == 0:
                entry = event.debug_entry
                tensors = entry.tensor_list.tensors if entry.tensor_list is not None else [entry.tensor]
                found.setdefault(event.instruction_id, []).extend(tensor for tensor in tensors if tensor is not None)
    return found


def _tensor(buffer: np.ndarray, about: Any) -> np.ndarray:
    """Return a logged tensor: a view of the tracer's buffer."""
    short = about.scalar_type.name == "BFLOAT16"
    dtype = np.dtype("uint16" if short else DTYPES[about.scalar_type.name])
    count = int(np.prod(about.sizes, dtype=int))
    start = about.offset or 0
    flat = buffer[start : start + count * dtype.itemsize].view(dtype)
    if short:  # the upper half of a float32
        flat = (flat.astype(np.uint32) << 16).view(np.float32)
        dtype = flat.dtype
    strides = [stride * dtype.itemsize for stride in about.strides]
    return np.lib.stride_tricks.as_strided(flat, about.sizes, strides, writeable=False)
