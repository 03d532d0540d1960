"""ONNX files that others made, read with care: whatever is wrong with one is said in a sentence."""

from collections import UserDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_nb.errors import InputError
from kokoro_nb.inspection.onnx_model import OnnxNode, brief, put, typed_inputs
from kokoro_nb.inspection.semantics.onnx_call import NotDefined, OnnxCall, bodies_of, call_on, captured_names, computed
from kokoro_nb.inspection.value_types import Value, Values, refusing

LARGEST = 2 * 2**30 - 1  # bytes of a protocol buffer
HEAVIEST = 4 * 2**30  # bytes of weights beside it
NEWEST_IR = 13  # that the runtime reads
Computed = tuple[OnnxCall, list[Value], list[Value]]  # a node, its inputs, and what it gives
CHOOSING = ("ArgMax", "ArgMin", "TopK")
OTHERS = {
    b"PK\x03\x04": "a zip archive (.pt2, .mlpackage, .npz or .pt)",
    b"\x89HDF": "an HDF5 file",
    b"GGUF": "a GGUF file",
    b"\x7fELF": "a program or library",
}


@dataclass(frozen=True, eq=False)
class OnnxFile:
    """A file that was read, its weights with it and its own functions written out.

    Attributes
    ----------
    path : pathlib.Path
        The file.
    model : onnx.ModelProto
        What is in it.
    notes : tuple of str
        What had to be changed so that it can be run.
    """

    path: Path
    model: Any
    notes: tuple[str, ...] = ()

    @cached_property
    def size(self) -> int:
        """Bytes of the model with its weights; to count them takes as long as to write them."""
        return int(self.model.ByteSize())

    @cached_property
    def opsets(self) -> dict[str, int]:
        """The version of each domain's operators; the standard domain is ""."""
        return {"" if o.domain == "ai.onnx" else o.domain: o.version for o in self.model.opset_import}

    @cached_property
    def constants(self) -> Mapping[str, np.ndarray]:
        """The initialisers by name, in the types of the file."""
        return TensorArrays(self.tensors)

    @cached_property
    def tensors(self) -> dict[str, Any]:
        """The initialisers by name, as ``onnx.TensorProto`` or ``onnx.SparseTensorProto``."""
        found = {tensor.name: tensor for tensor in self.model.graph.initializer}
        return found | {sparse.values.name: sparse for sparse in self.model.graph.sparse_initializer}

    def part(self, nodes: Iterable[OnnxNode], outer: Values, wanted: Iterable[str]) -> Any:
        """Return nodes as an ``onnx.ModelProto`` of their own, with inputs of the types of the arrays `outer`."""
        import onnx

        model = onnx.ModelProto(ir_version=self.model.ir_version)
        model.opset_import.extend(self.model.opset_import)
        model.graph.name = "part"
        model.graph.node.extend(node.proto for node in nodes)
        model.graph.input.extend(typed_inputs(outer))
        model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in wanted)
        for name in dict.fromkeys(name for node in nodes for name in node.reads if name in self.tensors):
            dense = hasattr(self.tensors[name], "raw_data")
            (model.graph.initializer if dense else model.graph.sparse_initializer).append(self.tensors[name])
        return model

    @cached_property
    def inputs(self) -> tuple[Any, ...]:
        """The inputs that a caller must give, as ``onnx.ValueInfoProto``."""
        return tuple(value for value in self.model.graph.input if value.name not in self.constants)

    def call(self, node: OnnxNode, values: Values) -> tuple[OnnxCall, list[Value]]:
        """Return a node with the values that it reads."""
        return call_on(node.proto, self.opsets, values)

    def evaluated(
        self, node: OnnxNode, values: Values, change: Callable[[Value], Value] = np.asarray, dtype: Any = np.float64
    ) -> Computed | None:
        """Return a node, its inputs and what it gives on these values, constants changed; None where it is unknown."""
        if any(name not in values and name not in self.constants for name in node.reads):
            return None
        outer = {name: values[name] if name in values else change(self.constants[name]) for name in node.reads}
        call, given = self.call(node, outer)
        try:
            results = computed(call, given, dtype)
            if node.proto.op_type in CHOOSING:  # of equals, of which float64 has the last bits by chance, the first
                results[-1:] = computed(call, given, np.float32)[-1:]
            return call, given, results
        except NotDefined:
            return None


class TensorArrays(UserDict[str, Any]):
    """Tensors of a file as arrays by name; they are made anew each time, so that they are not held twice."""

    def __getitem__(self, key: str) -> np.ndarray:
        from onnx import numpy_helper

        tensor = self.data[key]
        return _dense(tensor) if hasattr(tensor, "values") else numpy_helper.to_array(tensor)


def _dense(sparse: Any) -> np.ndarray:
    from onnx import numpy_helper

    values, indices = numpy_helper.to_array(sparse.values), numpy_helper.to_array(sparse.indices)
    dense = np.zeros(list(sparse.dims), values.dtype)
    where = indices if indices.ndim == 1 else np.ravel_multi_index(tuple(indices.T), dense.shape)
    dense.reshape(-1)[where] = values
    return dense


def read_onnx(path: str | Path) -> OnnxFile:
    """Read an ONNX file with its weights.

    Raises
    ------
    InputError
        In one sentence, if there is no such file, it is cut off or something else, weights beside it are missing, an
        operator or its version is unknown, or the graph is no valid one.
    """
    import onnx.inliner
    from google.protobuf.message import DecodeError

    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path} {'is a folder' if path.is_dir() else 'does not exist'}; give an .onnx file.")
    size = path.stat().st_size
    if not 0 < size <= LARGEST:
        raise InputError(f"{path} has {size:,} bytes; an ONNX file has at least one and at most {LARGEST:,}.")
    data = path.read_bytes()
    other = next((kind for start, kind in OTHERS.items() if data.startswith(start)), None)
    if data[4:6] == b"ET":
        other = "a program of ExecuTorch (.pte)"
    if other:
        raise InputError(f"{path} is {other}, no ONNX file.")
    with refusing(f"{path} is no ONNX file, or it is cut off or damaged.", kinds=(DecodeError, ValueError)):
        model = onnx.ModelProto.FromString(data)
    del data  # weights may be most of the memory, and stand in the model once more
    if not model.graph.node or not model.opset_import:
        raise InputError(f"{path} holds no graph of ONNX: {len(model.graph.node)} nodes.")
    newest = onnx.defs.onnx_opset_version()
    stated = [one.version for one in model.opset_import if one.domain in ("", "ai.onnx")]
    if any(not 0 < version <= newest for version in stated):
        raise InputError(f"{path} wants version {stated[0]} of ONNX's operators; 1 to {newest} are known.")
    _load_external(model, path)
    notes: list[str] = []
    if model.ir_version > NEWEST_IR:
        notes.append(f"IR version {model.ir_version} is newer than the runtime reads; run as {NEWEST_IR}")
        model.ir_version = NEWEST_IR
    if in_order(model.graph, path):
        notes.append("its nodes are not in the order that ONNX demands, and were put in order")
    _check(model, path)
    if model.functions:
        notes.append(f"{len(model.functions)} functions of its own were written out in place")
        with refusing(f"{path}: its functions cannot be written out: {{}}", brief):
            model = onnx.inliner.inline_local_functions(model)
    for sparse in model.graph.sparse_initializer:
        _dense(sparse)  # here, if it is damaged
    return OnnxFile(path, model, tuple(notes))


def _tensors(graph: Any) -> list[Any]:
    """Return every tensor of a graph and of its bodies that may hold weights."""
    found = list(graph.initializer)
    found += [part for sparse in graph.sparse_initializer for part in (sparse.values, sparse.indices)]
    for node in graph.node:
        found += [attribute.t for attribute in node.attribute if attribute.HasField("t")]
        found += [tensor for body in bodies_of(node) for tensor in _tensors(body)]
    return found


def _load_external(model: Any, path: Path) -> None:
    """Read the weights that lie beside the file, after a look at where they are said to be; then look at all."""
    import onnx
    from onnx import external_data_helper, numpy_helper

    total = 0
    for tensor in _tensors(model.graph):
        if external_data_helper.uses_external_data(tensor):
            kinds = ValueError, OSError, onnx.checker.ValidationError
            with refusing(f"{path}: the weights beside it cannot be read: {{}}", brief, kinds):
                external_data_helper.load_external_data_for_tensor(tensor, str(path.parent))
            total += len(tensor.raw_data)
            if total > HEAVIEST:
                raise InputError(f"{path} has more than {HEAVIEST:,} bytes of weights.")
        with refusing(f"{path}: the tensor '{tensor.name}' does not hold what its type and shape say."):
            numpy_helper.to_array(tensor)


def _check(model: Any, path: Path) -> None:
    """Have onnx's checker look at the model, which knows the operators of the standard domains.

    It wants a shape of every input and output; runtimes do not, so that one stands in while it looks.
    """
    import onnx

    types = [one.type for one in (*model.graph.input, *model.graph.output) if one.type.HasField("tensor_type")]
    bare = [one.tensor_type for one in types if not one.tensor_type.HasField("shape")]
    for tensor in bare:
        tensor.shape.SetInParent()
    kinds = onnx.checker.ValidationError, RuntimeError, ValueError, TypeError
    try:
        with refusing(f"{path} is no valid ONNX graph: {{}}", brief, kinds):
            onnx.checker.check_model(model)
    finally:
        for tensor in bare:
            tensor.ClearField("shape")


def in_order(graph: Any, path: Path) -> bool:
    """Put the nodes of a graph into an order in which each follows what it reads; return whether they were not.

    Converters leave them in any order, and runtimes sort them.

    Raises
    ------
    InputError
        If a node reads what comes from itself.
    """
    made = {name: k for k, node in enumerate(graph.node) for name in node.output if name}
    needs = {}
    for k, node in enumerate(graph.node):
        needs[k] = {made[name] for name in (*node.input, *captured_names(node)) if name in made}
    if all(other < k for k, others in needs.items() for other in others):
        return False
    try:
        order = list(TopologicalSorter(needs).static_order())
    except CycleError as error:
        circle = ", ".join(graph.node[k].name or graph.node[k].op_type for k in error.args[1][:5])
        raise InputError(f"{path}: its graph has a circle: {circle}.") from error
    put(graph.node, [graph.node[k] for k in order])
    return True
