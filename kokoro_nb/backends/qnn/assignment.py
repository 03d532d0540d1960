"""Which node of an ONNX graph runs on the NPU, which falls back on the CPU, and why."""

import os
import re
import tempfile
from ast import literal_eval
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from kokoro_nb.backends.base import Failure, RungError, on_rung, quietly
from kokoro_nb.backends.exported import Exported, snapshot
from kokoro_nb.backends.onnx import OnnxRuntime
from kokoro_nb.backends.qnn import Qnn
from kokoro_nb.backends.qnn.process import Validation, Worker, compile_onnx, complaints, validations
from kokoro_nb.backends.qnn.qnn_worker import PROVIDER
from kokoro_nb.backends.signature import Arrays, call_arguments, example_inputs
from kokoro_nb.errors import InputError

Place = Literal["npu", "cpu", "removed", "unknown"]
PLACES: tuple[Place, ...] = get_args(Place)
SCOPES = "pkg.torch.onnx.name_scopes"  # torch's exporter: module paths from the root down, then the node's own name
FOLDED = "folded into a constant or fused with another node before the provider saw the graph"
MERGED = "accepted, then merged with others when the graph was changed to channels-last layout"
ALONE = "accepted by itself, and not as part of this graph"
UNSEEN = "the provider was not asked about it"
_COPY = re.compile(r"_token_\d+$")  # what ONNX Runtime adds to the name of a node that it writes anew


@dataclass(frozen=True)
class Node:
    """One node of the ONNX file.

    Attributes
    ----------
    name, op : str
        As in the file; nodes of branches and loop bodies are nodes like others.
    module : str
        Path of the module that it was exported from, ``""`` where the file does not say.
    place : str
        ``npu``; ``cpu``; ``removed``: no longer in the graph when it was placed, with the reason; ``unknown``: nothing
        was said of it.
    accepted : bool or None
        Whether the NPU could compute the node by itself, as the provider says; None if it does not say.
    reason : str
        Why it is not on the NPU, as far as is known.
    """

    name: str
    op: str
    module: str
    place: Place
    accepted: bool | None = None
    reason: str = ""


@dataclass(frozen=True)
class Assignment:
    """Where the nodes of one graph run.

    Attributes
    ----------
    nodes : tuple of Node
        One for each node of the file, in its order.
    inserted : dict
        Nodes that the file does not have: (operator type, ``npu`` or ``cpu``) -> how many.
    refusal : str
        Where no node is on the NPU, the errors that were logged: a provider may accept nodes one by one and then fail
        on the graph.
    """

    nodes: tuple[Node, ...]
    inserted: Mapping[tuple[str, str], int]
    refusal: str = ""

    def count(self, place: Place) -> int:
        """Return the number of nodes of the file at `place`."""
        return sum(node.place == place for node in self.nodes)

    def as_dict(self) -> dict[str, Any]:
        """Return the row of a table."""
        return {
            "nodes": len(self.nodes),
            **{f"on {place.upper()}" if place in ("npu", "cpu") else place: self.count(place) for place in PLACES},
            "accepted one by one": sum(node.accepted is True for node in self.nodes),
            "inserted": sum(self.inserted.values()),
            "refusal": self.refusal,
        }


def assignment(model: str | Path | Exported, backend: Qnn) -> Assignment | Failure:
    """Ask the provider where each node of `model` would run.

    Parameters
    ----------
    model : path or Exported
        An ONNX file, or a module as `exported.export_program` made of it, which is then converted.
    backend : Qnn
        Says for which chip.

    Returns
    -------
    Assignment or Failure
        The failure's rung is ``lowered`` where the module cannot be converted, ``serialised`` where the provider or the
        process that it runs in failed.

    Raises
    ------
    InputError
        If there is no such file, or it is not an ONNX model.
    """
    options = backend.options()["provider"]
    with tempfile.TemporaryDirectory() as room:
        try:
            if isinstance(model, Exported):
                path = Path(room) / "converted.onnx"
                OnnxRuntime("onnxruntime").write(model, path, {})
            else:
                path = Path(model)
            graph, named = _named(path, Path(room) / "named.onnx")
            with on_rung("serialised"):
                placed, log = compile_onnx(named, Path(room) / "context.onnx", options)
                with Worker() as worker:
                    worker.ask("optimise", model=str(named), path=str(Path(room) / "optimised.onnx"))
                kept = {node.name for node in all_nodes(read_onnx(Path(room) / "optimised.onnx").graph)}
        except RungError as error:
            return error.failure(backend.name)
    return assigned(graph, placed, log, kept)


def assigned(graph: Any, placed: Sequence[tuple[str, str, str, str]], log: str, kept: set[str]) -> Assignment:
    """Join what the session recorded, what its log says and the nodes of the file, by name.

    Parameters
    ----------
    graph : onnx.GraphProto
        The file's graph; every node has a name of its own.
    placed : sequence
        (provider, name, domain, operator type) of every node that was placed.
    log : str
        What was said at log level verbose.
    kept : set of str
        Names that ONNX Runtime's basic optimisations leave in the graph.
    """
    verdicts = validations(log)
    nodes = [*all_nodes(graph)]
    own = {(node.name, node.op_type) for node in nodes}
    where: dict[str, str] = {}
    inserted: Counter[tuple[str, str]] = Counter()
    for provider, name, _, op in placed:
        before = _COPY.sub("", name)  # a node that was written anew stands for the one that it had been
        if (name, op) in own or (before, op) in own:
            where[name if (name, op) in own else before] = provider
        else:
            inserted[op, "npu" if provider == PROVIDER else "cpu"] += 1
    rows = tuple(_node(node, where.get(node.name), verdicts.get(node.name), node.name in kept) for node in nodes)
    taken = any(row.place == "npu" for row in rows)
    return Assignment(rows, dict(inserted), "" if taken else "\n".join(complaints(log, "EF")))


def _node(node: Any, provider: str | None, verdict: Validation | None, kept: bool) -> Node:
    reason = UNSEEN if verdict is None else ALONE if verdict.passed else verdict.reason
    place: Place = "unknown"
    if provider == PROVIDER:
        place, reason = "npu", ""
    elif provider is not None:
        place = "cpu"
    elif verdict is not None and verdict.passed:
        place, reason = "removed", MERGED
    elif verdict is None and not kept:
        place, reason = "removed", FOLDED
    return Node(node.name, node.op_type, module_path(node), place, verdict.passed if verdict else None, reason)


def module_path(node: Any) -> str:
    """Return the path of the module that a node of an ONNX file was exported from, ``""`` where the file does not say.

    >>> from onnx import helper
    >>> node = helper.make_node("Conv", ["x", "weight"], ["y"])
    >>> _ = node.metadata_props.add(key=SCOPES, value="['', 'decoder', 'decoder.encode', 'conv1d']")
    >>> module_path(node)
    'decoder.encode'
    """
    scopes = next((entry.value for entry in node.metadata_props if entry.key == SCOPES), "[]")
    try:
        paths = literal_eval(scopes)[:-1]  # the last is the node itself
    except (ValueError, SyntaxError):  # another exporter's
        return ""
    return paths[-1] if paths else ""


def all_nodes(graph: Any) -> Iterator[Any]:
    """Yield the nodes of `graph`, those of branches and loop bodies after the node that holds them."""
    for node in graph.node:
        yield node
        for part in parts_of(node):
            yield from all_nodes(part)


def parts_of(node: Any) -> Iterator[Any]:
    """Yield the branches and the body of a node itself."""
    for attribute in node.attribute:
        yield from (attribute.g,) if attribute.HasField("g") else ()
        yield from attribute.graphs


def read_onnx(path: Path) -> Any:
    """Read an ONNX file without weights kept beside it."""
    import onnx
    from google.protobuf.message import DecodeError

    try:
        return onnx.load(path, load_external_data=False)
    except FileNotFoundError as error:
        raise InputError(f"There is no ONNX file at {path}; check the path.") from error
    except (DecodeError, OSError) as error:
        raise InputError(f"{path} cannot be read as an ONNX model ({error}); export it again.") from error


def _named(path: Path, copy: Path) -> tuple[Any, Path]:
    """Return the graph of the file at `path` and where it lies; in `copy`, where some nodes had to be given names."""
    import onnx

    model = read_onnx(path)
    if len({node.name for node in all_nodes(model.graph)} - {""}) == sum(1 for _ in all_nodes(model.graph)):
        return model.graph, path
    model = onnx.load(path)
    taken: set[str] = {""}
    for number, node in enumerate(all_nodes(model.graph)):
        if node.name in taken:
            node.name = f"{node.name or node.op_type}#{number}"
        taken.add(node.name)
    onnx.save(model, copy)
    return model.graph, copy


def legacy_onnx(module: Any, inputs: Arrays, path: str | Path) -> Path | Failure:
    """Trace `module` and write it as ONNX, with the exporter's own choice of opset.

    Parameters
    ----------
    module : torch.nn.Module
        Any module; traced in evaluation mode and without gradients, from a copy, under the patches that are on.
    inputs : mapping
        Name of a parameter of its forward -> example tensor.
    path : path
        The file to write, in a folder that exists.

    Returns
    -------
    Path or Failure
        The failure's rung is ``lowered``.

    Raises
    ------
    InputError
        If the inputs do not fit the module, or there is no such folder.
    """
    import torch

    arrays = example_inputs(module, inputs)
    if not Path(path).parent.is_dir():
        raise InputError(f"There is no folder {Path(path).parent}; make it first.")
    try:
        with on_rung("lowered"), quietly(), _output_as_errors(), torch.no_grad():
            twin = snapshot(module)
            args, kwargs = call_arguments(twin, {name: torch.from_numpy(array) for name, array in arrays.items()})
            torch.onnx.export(twin, args, str(path), kwargs=kwargs, dynamo=False, input_names=list(arrays))
    except RungError as error:
        return error.failure("torch.onnx")
    return Path(path)


@contextmanager
def _output_as_errors() -> Iterator[None]:
    """Have file descriptor 1 go where 2 goes: when it fails, the tracer prints its whole graph there, past Python."""
    output = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(output, 1)
        os.close(output)
