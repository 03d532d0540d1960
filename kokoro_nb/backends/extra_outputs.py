"""The results of operators as further outputs of a program: how a backend without a tracer is looked into."""

from collections.abc import Collection
from typing import Any

from kokoro_nb.backends.assembly import assembled, needed_for
from kokoro_nb.backends.exported import Exported
from kokoro_nb.backends.segment import known_nodes, result_nodes
from kokoro_nb.errors import InputError


def with_outputs(exported: Exported, names: Collection[str]) -> Exported:
    """Return the program with the results of operators as further outputs, which go by the operators' names.

    Any backend can be looked into so, by compiling once more; but what it compiles is another graph, and what it joined
    across a result it no longer joins.

    Parameters
    ----------
    exported : Exported
        The program.
    names : collection of str
        Operators. One whose result is an output already is not added: see `output_of`.

    Raises
    ------
    InputError
        If there is no such operator in the program, or the program has an output of that name.
    """
    nodes = known_nodes(exported, names)
    graph = exported.specification.program.graph
    (own,) = graph.output_node().args
    added = {name: nodes[name] for name in dict.fromkeys(names) if nodes[name] not in own}
    taken = sorted(set(added) & set(exported.outputs))
    if taken:
        raise InputError(f"The program has an output called '{taken[0]}', as one of its operators is; rename it.")
    outputs = dict(zip(exported.outputs, own, strict=True)) | added
    needed = needed_for(outputs.values(), ()) | {node for node in graph.nodes if node.op == "placeholder"}
    return assembled(exported, needed, {}, outputs)[0]


def output_of(exported: Exported) -> dict[str, str]:
    """Return the operators whose results are outputs of the program: name of the operator -> name of the output."""
    graph = exported.specification.program.graph
    (own,) = graph.output_node().args
    names: dict[Any, str] = {}
    for name, node in zip(exported.outputs, own, strict=True):
        names.setdefault(node, name)
    return {name: names[node] for name, node in result_nodes(exported).items() if node in names}
