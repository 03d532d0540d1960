"""If, Loop and Scan, whose bodies are computed node by node as the graph around them is."""

from typing import Any

import numpy as np

from kokoro_nb.inspection.semantics.onnx_call import OnnxCall, computed, dtypes_of, meaning
from kokoro_nb.inspection.value_types import Several, Value

LONGEST = 100_000  # passes of a loop after which it is taken for endless


def evaluated_body(call: OnnxCall, body: Any, inputs: Several) -> list[Value]:
    """Compute a body in the types of what it is given.

    Parameters
    ----------
    call : OnnxCall
        The node that it belongs to, for the operators' versions and the values around it.
    body : onnx.GraphProto
        The body.
    inputs : sequence of values
        One for each input of the body.
    """
    from onnx import numpy_helper

    values: dict[str, Value] = dict(call.outer)
    values.update((tensor.name, numpy_helper.to_array(tensor)) for tensor in body.initializer)
    values.update(zip((value.name for value in body.input), inputs, strict=True))
    for node in body.node:
        given = [values[name] if name else None for name in node.input]
        outputs = computed(OnnxCall(node, call.opsets, dtypes_of(given), values), given)
        values.update((name, value) for name, value in zip(node.output, outputs, strict=False) if name)
    return [values[output.name] for output in body.output]


def captured_names(graph: Any) -> set[str]:
    """Return the names that a body, an ``onnx.GraphProto``, reads from around it."""
    known = {value.name for value in (*graph.input, *graph.initializer)}
    read: set[str] = set()
    for node in graph.node:
        read |= {name for name in node.input if name and name not in known}
        read |= {name for each in bodies_of(node) for name in captured_names(each) if name not in known}
        known |= set(node.output)
    return read | {output.name for output in graph.output if output.name not in known}


def bodies_of(node: Any) -> list[Any]:
    """Return the graphs among the attributes of a node."""
    return [a.g for a in node.attribute if a.HasField("g")] + [g for a in node.attribute for g in a.graphs]


@meaning("If")
def _if(call: OnnxCall, condition: np.ndarray) -> tuple[Value, ...]:
    chosen = call.get("then_branch" if bool(np.asarray(condition).reshape(())) else "else_branch")
    return tuple(evaluated_body(call, chosen, []))


@meaning("Loop")
def _loop(call: OnnxCall, most: np.ndarray | None, condition: np.ndarray | None, *carried: Value) -> tuple[Value, ...]:
    body = call.get("body")
    limit = LONGEST if most is None else int(np.asarray(most).reshape(()))
    going = True if condition is None else bool(np.asarray(condition).reshape(()))
    state, rows = list(carried), []
    count = 0
    while going and count < limit:
        if count >= LONGEST:
            raise ValueError(f"a loop of more than {LONGEST} passes")
        goes, *results = evaluated_body(call, body, [np.int64(count), np.asarray(going), *state])
        going = bool(np.asarray(goes).reshape(()))
        state, each = results[: len(carried)], results[len(carried) :]
        rows.append(each)
        count += 1
    if rows:
        return (*state, *(np.stack(column) for column in zip(*rows, strict=True)))
    shapes = [output.type.tensor_type.shape for output in body.output[1 + len(carried) :]]  # it was not entered
    return (*state, *(np.zeros((0, *(dim.dim_value for dim in shape.dim))) for shape in shapes))


@meaning("Scan")
def _scan(call: OnnxCall, *inputs: Value) -> tuple[Value, ...]:
    if call.opset < 9:
        raise ValueError("Scan of opset 8")
    body, count = call.get("body"), call.get("num_scan_inputs")
    state, scanned = list(inputs[: len(inputs) - count]), inputs[len(inputs) - count :]
    collected = len(body.output) - len(state)
    in_axes = call.get("scan_input_axes", [0] * count)
    backwards = call.get("scan_input_directions", [0] * count)
    along = zip(scanned, in_axes, backwards, strict=True)
    rows = [np.moveaxis(np.asarray(x), axis, 0)[:: 1 - 2 * back] for x, axis, back in along]
    steps: list[list[Value]] = []
    for each in zip(*rows, strict=True):
        results = evaluated_body(call, body, [*state, *each])
        state = results[: len(state)]
        steps.append(results[len(state) :])
    ahead = call.get("scan_output_directions", [0] * collected)
    out_axes = call.get("scan_output_axes", [0] * collected)
    columns = zip(zip(*steps, strict=True), out_axes, ahead, strict=True)
    return (*state, *(np.moveaxis(np.stack(one)[:: 1 - 2 * back], 0, axis) for one, axis, back in columns))
