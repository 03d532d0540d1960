"""The nodes of an ONNX model in order, and sessions of ONNX Runtime on it: plain, optimised, on threads, with taps."""

import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from kokoro_nb.backends.artefacts import give_back_memory
from kokoro_nb.backends.base import quietly
from kokoro_nb.backends.onnx import outputs_of
from kokoro_nb.errors import InputError
from kokoro_nb.inspection.semantics.onnx_call import OnnxCall, bodies_of, captured_names
from kokoro_nb.inspection.value_types import Arrays, NodeIdentity, Value, Values, refusing

RANDOM = frozenset(
    {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial"}
)


BOOLEAN = 9  # of onnx.TensorProto.DataType


@dataclass(frozen=True, eq=False, slots=True)
class OnnxNode(NodeIdentity):
    """One node of the outer graph; its operator has its domain if that is not the standard one.

    Attributes
    ----------
    proto : onnx.NodeProto
        The node.
    reads : tuple of str
        Names of the values that it reads, with those that its bodies read from around it; no empty ones.
    is_random : bool
        Whether what it gives is drawn.
    """

    proto: Any
    reads: tuple[str, ...]
    is_random: bool = False

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of what it gives, as far as they are named."""
        return tuple(name for name in self.proto.output if name)


def nodes_of(graph: Any) -> tuple[OnnxNode, ...]:
    """Return the nodes of an ``onnx.GraphProto``, each with the id that Model Explorer's ONNX adapter gives it.

    That is its name, with a number behind it if it is not the first of that name.
    """
    from onnx import numpy_helper

    found, seen = [], Counter[str]()
    tensors = {one.name: one for one in graph.initializer if one.data_type == BOOLEAN}
    tensors |= {node.output[0]: one.t for node in graph.node if node.op_type == "Constant" for one in node.attribute}
    true = {name for name, one in tensors.items() if one.data_type == BOOLEAN and numpy_helper.to_array(one).any()}
    for index, node in enumerate(graph.node):
        name = node.name or "node"
        key = name if not seen[name] else f"{name}_{seen[name]}"
        seen[name] += 1
        reads = tuple(dict.fromkeys([*filter(None, node.input), *sorted(captured_names(node))]))
        operator = OnnxCall(node, {}).operator
        drawn = operator in RANDOM or (operator == "Dropout" and bool(true & {*node.input[2:]}))
        found.append(OnnxNode(index, key, operator, node, reads, drawn))
    return tuple(found)


def put(held: Any, items: Iterable[Any]) -> None:
    """Put copies of some nodes, or of what else a graph holds, in the place of all of them."""
    copies = [deepcopy(one) for one in items]
    del held[:]
    held.extend(copies)


def typed_inputs(arrays: Mapping[str, Any]) -> list[Any]:
    """Return inputs of a graph, as ``onnx.ValueInfoProto``, of the types of these arrays and of any shape."""
    from onnx import helper

    types = {name: helper.np_dtype_to_tensor_dtype(one.dtype) for name, one in arrays.items()}
    return [helper.make_tensor_value_info(*one, None) for one in types.items()]


def draws_inside(node: Any) -> bool:
    """Return whether a body of an ``onnx.NodeProto`` draws at random, however deep."""
    inner = [one for body in bodies_of(node) for one in body.node]
    return any(OnnxCall(one, {}).operator in RANDOM or draws_inside(one) for one in inner)


def freeing(nodes: Iterable[OnnxNode], freed: Mapping[int, list[str]], *held: dict[str, Any]) -> Iterator[OnnxNode]:
    """Yield nodes, and after each let go of what no later one reads: see `last_readers`."""
    for node in nodes:
        yield node
        for name in freed.get(node.index, ()):
            for values in held:
                values.pop(name, None)


def last_readers(nodes: tuple[OnnxNode, ...], outputs: set[str]) -> Mapping[int, list[str]]:
    """Return the values that no later node reads, by the index of the last node that does; outputs stay."""
    last = {name: node.index for node in nodes for name in (*node.outputs, *node.reads)}
    found: dict[int, list[str]] = {}
    for name, index in last.items():
        if name not in outputs:
            found.setdefault(index, []).append(name)
    return found


LARGE = 64 * 2**20  # bytes of a model that goes through a file: a session holds on to the bytes that it is given


@contextmanager
def _source(model: Any) -> Iterator[Any]:
    """Give a model as sessions take it: as bytes, a large one as the path of a file; these two as they are."""
    source = model if isinstance(model, bytes | str) else model.SerializeToString()
    if isinstance(source, str) or len(source) <= LARGE:
        yield source
        return
    with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
        file.write(source)
        file.flush()
        del source
        yield file.name


def session_of(model: Any, optimised: bool = False, threads: int = 1, written: str = "") -> Any:
    """Open a session of an ``onnx.ModelProto``, or what `_source` gives of it, on the CPU.

    The graph that it runs is saved under the path `written`.

    Raises
    ------
    InputError
        If ONNX Runtime refuses it: it knows no such operator, or the types do not go together.
    """
    with quietly():
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.enable_cpu_mem_arena = False  # an arena grows by powers of two, and gives nothing back
        options.optimized_model_filepath = written
        levels = onnxruntime.GraphOptimizationLevel
        options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimised else levels.ORT_DISABLE_ALL
        with refusing("ONNX Runtime does not load it: {}", brief), _source(model) as source:
            return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def run_session(session: Any, inputs: Arrays) -> dict[str, Value]:
    """Run once and return the outputs by name.

    Raises
    ------
    InputError
        If the runtime stops with an error.
    """
    wanted = [output.name for output in session.get_outputs()]
    fed = {one.name: inputs[one.name] for one in session.get_inputs() if one.name in inputs}
    with quietly(), refusing("ONNX Runtime stops: {}", brief):
        return dict(zip(wanted, outputs_of(session, wanted, fed), strict=True))


def run_once(model: Any, inputs: Arrays, values: Iterable[str] | None = None, threads: int = 1) -> dict[str, Value]:
    """Return the outputs of a model, or `values` in their place, of one run without optimisation."""
    return run_session(session_of(model if values is None else tapped(model, values), threads=threads), inputs)


PLAIN, AGAIN = "plain", "again"
WAYS: dict[str, dict[str, Any]] = {"with graph optimisation": {"optimised": True}, "on two threads": {"threads": 2}}
"""How a model is run besides: see `session_of`."""


def run_ways(model: Any, inputs: Arrays) -> Iterator[tuple[str, Any]]:
    """Yield what a model gives plainly, in a second call and in the other ways, one session after the other.

    Each holds the whole model.

    Parameters
    ----------
    model : onnx.ModelProto
        The model.
    inputs : mapping of str to numpy.ndarray
        Its inputs.

    Raises
    ------
    InputError
        If the runtime does not load it or stops, when it is run plainly.
    """
    with _source(model) as source:
        plain = session_of(source)
        yield PLAIN, run_session(plain, inputs)
        yield AGAIN, run_session(plain, inputs)
        del plain
        for way, how in WAYS.items():
            give_back_memory()
            try:
                found: Values | str = run_session(session_of(source, **how), inputs)
            except InputError as error:
                found = str(error)
            yield way, found
    give_back_memory()


def tapped(model: Any, values: Iterable[str]) -> Any:
    """Return a copy of the model with `values` as its outputs, and nothing else."""
    import onnx

    copy = deepcopy(model)
    known = {output.name: output for output in model.graph.output}
    put(copy.graph.output, [known.get(name, onnx.ValueInfoProto(name=name)) for name in values])
    return copy


def optimised(model: Any) -> Any:
    """Return a model as the runtime optimises it."""
    import onnx

    with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
        session_of(model, optimised=True, written=file.name)
        return onnx.load(file.name)


def pinned(model: Any, values: Arrays) -> Any:
    """Return a copy in which the nodes that make `values` are gone and the values are constants."""
    import onnx

    copy = deepcopy(model)
    put(copy.graph.node, [node for node in model.graph.node if not set(node.output) & set(values)])
    copy.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in values.items())
    return copy


def brief(error: Exception) -> str:
    """Return the first line of a runtime's message, without its own codes."""
    text = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    text = text.rsplit("] : ", 1)[-1].split(" : ", 3)[-1]
    text = re.sub(r"^\S*onnxruntime_src.*\) (?=[A-Z])", "", text)  # where in the runtime's own source
    return f"{text[:300].rstrip('.')}."
