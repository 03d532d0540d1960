"""Which node of an ONNX file computes an operator that the file gets wrong whatever it is given: told by structure."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kokoro_nb.traces.operators import INPUT, Operator


def of_same_inputs(
    operators: Sequence[Operator], nodes: Sequence[Any], places: Mapping[str, str], values: Mapping[str, np.ndarray]
) -> dict[str, str]:
    """Return the places of operators that no value of the file comes near.

    Parameters
    ----------
    operators : sequence of Operator
        Of the module, in the order of execution.
    nodes : sequence of onnx.NodeProto
        Of the file.
    places : mapping
        Operator -> value of the file that holds its result, as far as known.
    values : mapping
        Value of the file -> the tensor that it holds.

    Returns
    -------
    dict
        Operator -> value, of each operator of which exactly one node of the file is of the same kind, gives the same
        shape, holds no other operator's result, and reads the result of an operator (or an input) that this one reads.
    """
    known = dict(places)
    found: dict[str, str] = {}
    for operator in operators:
        if operator.name in known:
            continue
        read = {known.get(one, one.removeprefix(INPUT)) for one in operator.inputs}
        fitting = [
            node.output[0]
            for node in nodes
            if node.op_type.lower() == operator.kind
            and len(node.output) == 1
            and node.output[0] in values
            and values[node.output[0]].shape == operator.shape
            and node.output[0] not in known.values()
            and read & {*node.input}
        ]
        if len(fitting) == 1:
            known[operator.name] = found[operator.name] = fitting[0]
    return found
