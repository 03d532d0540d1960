"""ExecuTorch's event tracer: the results of all instructions of one run, written by a process of its own."""

import math
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.backends.base import quietly
from kokoro_nb.backends.called_operators import is_element
from kokoro_nb.backends.executorch.executorch_private import of_executorch
from kokoro_nb.backends.executorch.tracer import AGAIN, EVENTS, INPUTS, OUTPUTS, TENSORS
from kokoro_nb.backends.exported import Exported
from kokoro_nb.errors import InputError
from kokoro_nb.run_apart import SAFELY, run_apart
from kokoro_nb.torch_private import schema

ROOM = "tracing.json"
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
        done = run_apart([*SAFELY, _TRACER, program, str(size), folder, *(["again"] if again else [])])
        if done.status != 0:
            how = f"ended with {done.status}"
            if done.status == -signal.SIGABRT:
                how = f"was aborted, perhaps because its buffer of {size} bytes is too small"
            raise RuntimeError(f"The process that traced {program.name} {how}: {done.stderr.strip()}")
        events = _logged(folder / EVENTS)
        buffer = np.fromfile(folder / TENSORS, np.uint8) if events else np.empty(0, np.uint8)
        logged = {number: [_tensor(buffer, one) for one in tensors] for number, tensors in events.items()}
        return LoggedRun(_stored(folder / OUTPUTS), logged, _stored(folder / AGAIN) if again else [])


def _stored(path: Path) -> list[np.ndarray]:
    with np.load(path) as stored:
        return [stored[name] for name in stored.files]


def _logged(path: Path) -> dict[int, list[Any]]:
    """Return the tensors that each instruction of the outermost chain logged, in order; none if they cannot be read.

    What ExecuTorch's tracer writes of a float16 tensor is damaged, and the wheel of 0.7 was built without a tracer.
    """
    found: dict[int, list[Any]] = {}
    try:
        with quietly():
            runs = of_executorch("deserialize_from_etdump_flatcc")(path.read_bytes()).run_data
    except (subprocess.CalledProcessError, FileNotFoundError, TypeError, InputError):
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
    strides = [stride * dtype.itemsize for stride in about.strides]
    array: np.ndarray = np.ndarray(about.sizes, dtype, buffer[about.offset or 0 :], strides=strides)
    return (array.astype(np.uint32) << 16).view(np.float32) if short else array  # the upper half of a float32


Place = tuple[int, int]  # number of the instruction, and which of the tensors that it logs, counted from the end
_ALIGNMENT = 64  # bytes at which the event tracer begins each tensor


def places(program: Any, exported: Exported) -> dict[str, Place]:
    """Return where the event tracer logs each operator's result.

    A result inside a delegate is not among them, unless the delegate hands it out. Which node holds an operator's
    result is decided among all, those inside delegates included: where it is hidden, no earlier one stands in for it.

    Parameters
    ----------
    program : executorch.exir.ExecutorchProgramManager
        Made from `exported`. Its nodes carry the number of their instruction as debug handle.
    exported : Exported
        What names the operators.
    """
    graph_module = program.exported_program().graph_module
    known: dict[Any, Place] = {}
    for node in graph_module.graph.nodes:
        if _number(node) is None:
            continue  # what writes state back when all is done
        if _is_delegate(node):
            handed_out = _inside(graph_module, node).output_node().args[0]
            known |= {inner: (_number(node), place - len(handed_out)) for place, inner in enumerate(handed_out)}
        elif is_element(node):
            # what gives the list of results, or what writes to that memory; none of a branch
            giver = next((one for one in (node.args[0], *node.args[0].users) if _is_instruction(one)), None)
            if giver is not None:
                known[node] = (_number(giver), node.args[1] - len(node.args[0].meta["val"]))
        elif _is_instruction(node):
            known[node] = (_number(node), -1)
        elif _name(node) == "view" and node.args[0] in known:  # the same memory in another shape
            known[node] = known[node.args[0]]
    results = exported.specification.results(_nodes(graph_module))
    return {name: known[node] for name, node in results.items() if node in known}


def room(program: Any) -> int:
    """Return how many bytes the event tracer needs for one call: it logs outputs, and of delegates the inputs too."""
    whole = program.exported_program().graph_module
    (outputs,) = whole.graph.output_node().args
    nodes = [node for one in whole.modules() if hasattr(one, "graph") for node in one.graph.nodes]  # branches, too
    logged = [node.meta["val"] for node in nodes if _is_instruction(node)]
    logged += [source.meta["val"] for node in nodes if _is_delegate(node) for source in node.args[1:]]
    logged += [node.meta["val"] for node in outputs if hasattr(node, "meta")]
    return _ALIGNMENT + sum(_bytes(value) for value in logged)


def _bytes(value: Any) -> int:
    if isinstance(value, list | tuple):
        return sum(_bytes(each) for each in value)
    if not hasattr(value, "stride"):
        return 0
    count = math.prod(map(of_executorch("eval_upper_bound"), value.shape))
    return _ALIGNMENT * (1 + math.ceil(count * value.element_size() / _ALIGNMENT))


def _nodes(graph_module: Any) -> Iterator[Any]:
    """Yield every node that computes something, those inside delegates in the place of the call."""
    for node in graph_module.graph.nodes:
        if _is_delegate(node):
            yield from (inner for inner in _inside(graph_module, node).nodes if inner.op == "call_function")
        elif node.op == "call_function" and not (is_element(node) and _is_delegate(node.args[0])):
            yield node


def _inside(graph_module: Any, call: Any) -> Any:
    """Return the graph that a delegate was given."""
    return getattr(graph_module, call.args[0].target).original_module.graph


def _is_instruction(node: Any) -> bool:
    """Return whether a node became an instruction; allocations, views and elements did not."""
    return node.op == "call_function" and (_is_delegate(node) or schema(node.target) is not None)


def _is_delegate(node: Any) -> bool:
    return _name(node) == "executorch_call_delegate"


def _name(node: Any) -> str:
    """Return what a node calls."""
    return getattr(node.target, "__name__", "")


def _number(node: Any) -> Any:
    return node.meta.get("debug_handle")
