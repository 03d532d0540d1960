"""ONNX, written by `torch.onnx.export(dynamo=True)` and run by ONNX Runtime on the CPU."""

import ctypes
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from kokoro_nb.backends.artefacts import Add, FileBackend, FileProgram, NamedArrays
from kokoro_nb.backends.base import Artifact, import_failure, on_rung, quietly
from kokoro_nb.backends.called_operators import is_element, user_results
from kokoro_nb.backends.exported import Exported
from kokoro_nb.backends.specification import Specification
from kokoro_nb.cache_keys import rival_runtimes
from kokoro_nb.errors import noted
from kokoro_nb.traces.trace import Keep

BFLOAT16 = 16  # of onnx.TensorProto.DataType
PLACES = 2  # of the rules in `places`: an artefact that was made by earlier ones is made anew


@dataclass(frozen=True)
class OnnxProgram(FileProgram):
    """A session of ONNX Runtime.

    ONNX Runtime joins no operators across an output, so that the graph that is traced is not the one that runs.
    """

    session: Any
    _tapped: dict[tuple[frozenset[str], bool], Any] = field(default_factory=dict, repr=False, compare=False)

    how: ClassVar[str] = "results as further outputs of the file"

    def computed(self, arrays: NamedArrays) -> list[np.ndarray]:
        """Return the outputs: see `FileProgram`."""
        return _results(self.session, [one.name for one in self.session.get_outputs()], arrays)

    def captured(self, arrays: NamedArrays, places: Mapping[str, Any], add: Add, keep: Keep) -> list[np.ndarray]:
        """Run the file once with the results of operators as further outputs: see `FileProgram`."""
        session = self.tapped(frozenset(places.values()), pooled=keep != "full")
        names = [node.name for node in session.get_outputs()]
        results = dict(zip(names, _results(session, names, arrays), strict=True))
        outputs = [np.array(results[name]) for name in names[: len(self.artifact.outputs)]]
        operators: dict[str, list[str]] = {}
        for name, value in places.items():
            operators.setdefault(value, []).append(name)
        for value in [value for value in operators if value in results]:
            result = results.pop(value)  # and its memory goes as soon as it is copied
            for name in operators[value]:
                add(name, result)
        return outputs

    def tapped(self, values: frozenset[str], pooled: bool = True) -> Any:
        """Return a session of the file with `values`, as far as it has them, as further outputs; the last is kept.

        Unpooled, each result has memory of its own: slower, and half as much where all of them are kept.
        """
        if (values, pooled) not in self._tapped:
            self._tapped.clear()
            assert self.artifact.path is not None
            self._tapped[values, pooled] = _session(tapped_model(self.artifact.path, values), pooled)
        return self._tapped[values, pooled]


@dataclass(frozen=True)
class OnnxRuntime(FileBackend):
    """ONNX Runtime on the CPU.

    Attributes
    ----------
    single_file_limit : int
        Bytes of weights above which they are kept in a file of their own: an ONNX file holds less than 2 GiB.

    Notes
    -----
    torch's exporter (2.13) writes ``atan2(y, x)`` as ``atan(y / x)`` with corrections, the last of which puts 0 in
    place of NaN: a NaN in either argument, and two infinite arguments, come out as 0. ``atan2(+0, x)`` of a negative x
    comes out as -pi instead of +pi.
    """

    single_file_limit: int = 2**31 - 2**26

    file: ClassVar[str] = "model.onnx"
    packages: ClassVar[tuple[str, ...]] = ("onnx", "onnxscript", "onnxruntime")

    def available(self) -> str | None:
        """Return None if the exporter and ONNX Runtime can be imported, else the reason why not, in one sentence."""
        return rival_runtimes() or import_failure("ONNX Runtime", "onnx", "onnx", "onnxruntime", "onnxscript")

    def options(self) -> dict[str, Any]:
        """Return the limit of a single file, and which rules say where the results of operators are."""
        return {"single_file_limit": self.single_file_limit, "places": PLACES}

    def write(self, exported: Exported, path: Path, seconds: dict[str, float]) -> dict[str, str]:
        """Convert, save and check the model."""
        with on_rung("lowered", seconds), quietly():
            model = onnx_program(exported)
        with on_rung("serialised", seconds), quietly():
            import onnx

            weights = sum(value.const_value.nbytes for value in model.model.graph.initializers.values())
            model.save(str(path), external_data=weights > self.single_file_limit)
            onnx.checker.check_model(str(path))
        return places(model, exported)

    def opened(self, artifact: Artifact, path: Path) -> OnnxProgram:
        """Open a session."""
        try:
            return OnnxProgram(artifact, _session(str(path)))
        except Exception as error:
            noted(error, _made_from(path, str(error)))
            raise


def onnx_program(exported: Exported) -> Any:
    """Return `exported` as torch's exporter writes it, a ``torch.onnx.ONNXProgram`` with our names."""
    import torch

    names = [spec.name for spec in exported.inputs]
    return torch.onnx.export(
        exported.program,
        dynamo=True,
        input_names=names,
        output_names=[name if name not in names else f"{name}_out" for name in exported.outputs],
        verbose=False,
    )


Nodes = Mapping[str, Any]  # by name


def places(program: Any, exported: Exported) -> dict[str, str]:
    """Return the name of the value that holds each operator's result, in an ONNX program of `exported`.

    The exporter notes on each node of ONNX which node of the program, as it decomposed it, it was made for.
    """
    nodes = {node.name: node for node in program.exported_program.graph.nodes}
    last = {name: node for node in program.model.graph if (name := _made_for(node) or "") in nodes}
    found = {}
    for name, node in last.items():
        if len(node.outputs) == 1 and len([one for one in nodes[name].users if is_element(one)]) > 1:
            continue  # the last of several nodes that were made of it
        sources = exported.specification.sources_of(nodes[name], len(node.outputs))
        found.update({source: value.name for source, value in zip(sources, node.outputs, strict=True) if source})
    values = {value.name: value for node in program.model.graph for value in node.outputs}
    holders = exported.specification.results(nodes.values())
    found |= _splits(program.model.graph, nodes, last, exported.specification, holders) | _elements(program, holders)
    shapes = {operator.name: operator.shape for operator in exported.specification.operators}
    return {source: value for source, value in found.items() if _shape(values[value]) == shapes[source]}


def _elements(program: Any, holders: Nodes) -> dict[str, str]:
    """Return the results of nodes with several that are values of their own: the exporter names each by its element.

    Such a node may be written as several of one result each, as unbind and a stack of LSTMs are, all with one note.
    """
    graph = program.exported_program.graph
    results = user_results(program.exported_program)
    names = {value.name: value.name for node in program.model.graph for value in node.outputs}
    names |= {result.name: value.name for result, value in zip(results, program.model.graph.outputs, strict=True)}
    elements = [node for node in graph.nodes if is_element(node) and node.name in names]
    held = {node: name for name, node in holders.items()}
    return {held[node]: names[node.name] for node in elements if node in held}


def _splits(graph: Any, nodes: Nodes, last: Nodes, known: Specification, holders: Nodes) -> dict[str, str]:
    """Return the results of nodes with several, on which the exporter's optimiser left no note of their origin.

    Such a node is told by what it reads: it is the one node of the program with as many results that reads the same.
    """
    origins = {value.name: name for name, node in last.items() for value in node.outputs}
    found: dict[str, str] = {}
    for node in graph:
        read = node.inputs[0].name if node.inputs and node.inputs[0] is not None else None
        if len(node.outputs) < 2 or _made_for(node) or read is None:
            continue
        fits = [
            one
            for one in nodes.values()
            if isinstance(value := one.meta.get("val"), list | tuple)
            and len(value) == len(node.outputs)
            and [source.name for source in one.all_input_nodes[:1]] == [origins.get(read, read)]
        ]
        if len(fits) == 1:
            sources = known.sources_of(fits[0], len(node.outputs), holders)
            found |= {source: value.name for source, value in zip(sources, node.outputs, strict=True) if source}
    return found


def fed(session: Any, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return what a session is given: by name where it has our names, else in order; floats in its own precision."""
    takes = session.get_inputs()
    known = {node.name for node in takes} == {*arrays}
    given = zip(takes, (arrays[node.name] for node in takes) if known else arrays.values(), strict=True)
    return {
        node.name: value.astype(np.float16) if node.type == "tensor(float16)" and value.dtype.kind == "f" else value
        for node, value in given
    }


def outputs_of(session: Any, names: list[str], given: Mapping[str, Any]) -> list[Any]:
    """Run a session and return the values of these names, those of bfloat16, which NumPy lacks, in ml_dtypes' type."""
    if all(one.type != "tensor(bfloat16)" for one in (*session.get_inputs(), *session.get_outputs())):
        found: list[Any] = session.run(names, given)
        return found
    from onnx.helper import tensor_dtype_to_np_dtype
    from onnxruntime import OrtValue

    dtype = tensor_dtype_to_np_dtype(BFLOAT16)
    values = {
        name: OrtValue.ortvalue_from_numpy_with_onnx_type(one.view(np.uint16), BFLOAT16)
        if one.dtype == dtype
        else OrtValue.ortvalue_from_numpy(one)
        for name, one in ((name, np.ascontiguousarray(one)) for name, one in given.items())
    }
    found = session.run_with_ort_values(names, values)
    for place, one in enumerate(found):
        short = one.data_type() == "tensor(bfloat16)"
        held = ctypes.string_at(one.data_ptr(), one.tensor_size_in_bytes()) if short else b""
        found[place] = np.frombuffer(held, dtype).reshape(one.shape()) if short else one.numpy()
    return found


def _results(session: Any, names: list[str], arrays: NamedArrays) -> list[np.ndarray]:
    """Return what a session gives of arrays by our names, bfloat16 as float32."""
    found = outputs_of(session, names, fed(session, arrays))
    return [one.astype(np.float32) if one.dtype.name == "bfloat16" else one for one in found]


def tapped_model(path: Path, values: Collection[str] | None) -> bytes:
    """Return the ONNX file at `path` with those of its `values` that it has, or all of None, as further outputs."""
    import onnx

    model = onnx.load(path)
    present = {output.name for output in model.graph.output}
    for node in model.graph.node:
        for value in node.output:
            if value and (values is None or value in values) and value not in present:
                model.graph.output.append(onnx.ValueInfoProto(name=value))
    return model.SerializeToString()


def _session(model: str | bytes, pooled: bool = True) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.enable_cpu_mem_arena = pooled
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _made_from(path: Path, message: str) -> str:
    """Return what of the model the node was made from that a message names, and the line; empty if it names none."""
    import onnx

    named = re.search(r"node \(?:?(\S+?)\)", message)
    nodes = onnx.load(path, load_external_data=False).graph.node if named else ()
    for node in nodes:
        if named and node.name == named[1]:
            about = {one.key.removeprefix("pkg.torch.onnx."): one.value for one in node.metadata_props}
            return f"{about.get('fx_node', '')}\nOriginal traceback:\n{about.get('stack_trace', '')}\n"
    return ""


def _made_for(node: Any) -> str | None:
    """Return the name of the node that an ONNX node was made for: the innermost of its scopes."""
    from ast import literal_eval

    scopes = node.metadata_props.get("pkg.torch.onnx.name_scopes")
    return literal_eval(scopes)[-1] if scopes else None


def _shape(value: Any) -> tuple[int, ...] | None:
    return tuple(value.shape) if value.shape is not None and value.shape.is_static() else None
