"""Where the nodes of a file stood before its own functions were written out, under the ids of Model Explorer's adapter.

The adapter keeps a function as a graph of its own, ``[function]domain::name``, and its call as a node of the graph
around it. Written out, each call is replaced by the function's nodes in their order.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from kokoro_nb.inspection.onnx_nodes import nodes_of

Place = tuple[str, str]  # id of a graph, and of a node in it


def function_places(model: Any, inlined: Any) -> tuple[tuple[Place, ...], ...]:
    """Return for each node of the written-out graph the calls that it came from, outermost first, and itself.

    Parameters
    ----------
    model : onnx.ModelProto
        As the file has it.
    inlined : onnx.ModelProto
        The same with its functions written out.

    Returns
    -------
    tuple of tuple of (str, str)
        Nothing if the two do not go together node by node.
    """
    functions = {(one.domain, one.name, one.overload): one for one in model.functions}
    walked = list(_walked(model.graph, model.graph.name or "<main>", functions, ()))
    if [kind for kind, _ in walked] != [node.op_type for node in inlined.graph.node]:
        return ()
    return tuple(places for _, places in walked)


def _walked(
    graph: Any, name: str, functions: Mapping[tuple[str, str, str], Any], above: tuple[Place, ...]
) -> Iterator[tuple[str, tuple[Place, ...]]]:
    """Yield the operator of each node, calls written out, with where it stands."""
    for node in nodes_of(graph):
        places = (*above, (name, node.key))
        proto = node.proto
        function = functions.get((proto.domain, proto.op_type, proto.overload))
        if function is None:
            yield proto.op_type, places
        else:
            yield from _walked(function, _graph_name(function), functions, places)


def _graph_name(function: Any) -> str:
    overload = f"::{function.overload}" if function.overload else ""
    return f"[function]{function.domain}::{function.name}{overload}"
