"""The bodies of Loop and If run as files of their own, pass by pass, on what the runtime gave: each node judged."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from kokoro_nb.errors import InputError
from kokoro_nb.inspection.blame import InspectionFinding, stated
from kokoro_nb.inspection.file_run import FileRun, examined
from kokoro_nb.inspection.node_judgement import NodeJudgement
from kokoro_nb.inspection.onnx_file import OnnxFile
from kokoro_nb.inspection.onnx_nodes import OnnxNode, copied, put, typed_inputs
from kokoro_nb.inspection.onnx_session import run_session, session_of
from kokoro_nb.inspection.semantics.control_flow import captured_names
from kokoro_nb.inspection.value_types import Values

PASSES = 64  # of one loop, that are judged


@dataclass(frozen=True)
class BodyRun:
    """The nodes of one body over the passes that were judged.

    Attributes
    ----------
    key : str
        Id of the node that the body belongs to.
    passes : int
        How many were judged.
    worst : tuple of (int, NodeJudgement)
        Each node of the body in the pass in which it is furthest off, with the number of that pass.
    attribute : str
        The attribute that holds the body: ``body``, ``then_branch`` or ``else_branch``.
    """

    key: str
    passes: int
    worst: tuple[tuple[int, NodeJudgement], ...]
    attribute: str = "body"


def body_runs(seen: FileRun) -> tuple[tuple[BodyRun, ...], tuple[str, ...]]:
    """Judge the bodies of a file's outermost Loop and If nodes; return what was judged, and what could not be."""
    found, notes = [], []
    for node in seen.nodes:
        if node.proto.op_type not in ("If", "Loop") or node.proto.domain not in ("", "ai.onnx"):
            continue
        worst: dict[str, tuple[int, NodeJudgement]] = {}
        count, attribute = 0, "body"
        try:
            for held, file, inputs in _passes(seen, node):
                attribute = held
                for one in examined(file, inputs).judgements:
                    before = worst.get(one.key)
                    if before is None or one.size > before[1].size:
                        worst[one.key] = (count, one)
                count += 1
        except InputError as error:
            notes.append(f"The body of {node.key} ({node.operator}) could not be run by itself: {error}")
        if count:
            found.append(BodyRun(node.key, count, tuple(worst.values()), attribute))
    return tuple(found), tuple(notes)


def pass_of(seen: FileRun, key: str, number: int) -> FileRun:
    """Run one pass of a body once more, as a file of its own."""
    node = next(one for one in seen.nodes if one.key == key)
    _, file, inputs = next(islice(_passes(seen, node), number, None))
    return examined(file, inputs)


def body_findings(runs: tuple[BodyRun, ...], nodes: Sequence[OnnxNode]) -> tuple[InspectionFinding, ...]:
    """Name the nodes of bodies that are wrong, each in its worst pass."""
    index = {node.key: node.index for node in nodes}
    found = []
    for run in runs:
        for number, one in run.worst:
            if one.verdict == "fail" and one.worst is not None:
                statement = f"In {run.key}, pass {number + 1} of {run.passes}: {stated(one, one.worst)}"
                key = f"{run.key}/{one.key}"
                proof = ("The body was run as a file of its own on what the runtime gave it.",)
                found.append(InspectionFinding("wrong", "unknown", statement, key, one.operator, index[run.key], proof))
    return tuple(found)


def _passes(seen: FileRun, node: OnnxNode) -> Iterator[tuple[str, OnnxFile, dict[str, np.ndarray]]]:
    """Yield the attribute of a body, and each pass of it as a file with its inputs.

    A loop goes on with what the runtime gives.
    """
    values = seen.captured(node)
    call, inputs = seen.call(node, values)
    if node.proto.op_type == "If":
        chosen = "then_branch" if bool(np.asarray(inputs[0]).reshape(())) else "else_branch"
        yield chosen, *_as_file(seen.file, call.get(chosen), {}, values)
        return
    body = call.get("body")
    limit = PASSES if inputs[0] is None else int(np.asarray(inputs[0]).reshape(()))
    going = True if inputs[1] is None else bool(np.asarray(inputs[1]).reshape(()))
    state = list(inputs[2:])
    for number in range(min(limit, PASSES)):
        if not going:
            return
        given = [np.asarray(number, np.int64), np.asarray(going), *state]
        named = dict(zip((value.name for value in body.input), given, strict=True))
        file, fed = _as_file(seen.file, body, named, values)
        yield "body", file, fed
        results = run_session(session_of(file.model), fed)
        outputs = [results[output.name] for output in body.output]
        going, state = bool(np.asarray(outputs[0]).reshape(())), outputs[1 : 1 + len(state)]


def _as_file(file: OnnxFile, body: Any, named: Values, around: Values) -> tuple[OnnxFile, dict[str, np.ndarray]]:
    """Return a body as a file whose inputs are its own and what it reads from around it.

    Raises
    ------
    InputError
        If one of these is a sequence.
    """
    values = {**{name: around[name] for name in captured_names(body)}, **named}
    if any(isinstance(value, list) or value is None for value in values.values()):
        raise InputError("it reads a sequence, which no file of tensors holds.")
    arrays = {name: np.asarray(value) for name, value in values.items()}
    model = copied(file.model)
    model.graph.CopyFrom(body)
    put(model.graph.input, typed_inputs(arrays))
    return replace(file, model=model), arrays
