"""Which instruction of an ExecuTorch program gives which operator's result, and how much room all results take."""

import math
from collections.abc import Iterator
from typing import Any

from kokoro_nb.backends.called_operators import is_element
from kokoro_nb.backends.exported import Exported

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
            giver = _giver(node.args[0])
            known[node] = (_number(giver), node.args[1] - len(node.args[0].meta["val"]))
        elif _is_instruction(node):
            known[node] = (_number(node), -1)
        elif _name(node) == "view" and node.args[0] in known:  # the same memory in another shape
            known[node] = known[node.args[0]]
    results = exported.specification.results(_nodes(graph_module))
    return {name: known[node] for name, node in results.items() if node in known}


def room(program: Any) -> int:
    """Return how many bytes the event tracer needs for one call: it logs outputs, and of delegates the inputs too."""
    graph = program.exported_program().graph_module.graph
    (outputs,) = graph.output_node().args
    logged = [node.meta["val"] for node in graph.nodes if _is_instruction(node)]
    logged += [source.meta["val"] for node in graph.nodes if _is_delegate(node) for source in node.args[1:]]
    logged += [node.meta["val"] for node in outputs if hasattr(node, "meta")]
    return _ALIGNMENT + sum(_bytes(value) for value in logged)


def _bytes(value: Any) -> int:
    if isinstance(value, list | tuple):
        return sum(_bytes(each) for each in value)
    if not hasattr(value, "stride"):
        return 0
    from executorch.exir.sym_util import eval_shape_upper_bound

    return _ALIGNMENT * (
        1 + math.ceil(math.prod(eval_shape_upper_bound(value.shape)) * value.element_size() / _ALIGNMENT)
    )


def _nodes(graph_module: Any) -> Iterator[Any]:
    """Yield every node that computes something, those inside delegates in the place of the call."""
    for node in graph_module.graph.nodes:
        if _is_delegate(node):
            yield from (inner for inner in _inside(graph_module, node).nodes if inner.op == "call_function")
        elif node.op == "call_function" and not (is_element(node) and _is_delegate(node.args[0])):
            yield node


def _giver(node: Any) -> Any:
    """Return the instruction that gives a list of results; `node` is that, or the memory that it writes them to."""
    return node if _is_instruction(node) else next(user for user in node.users if _is_instruction(user))


def _inside(graph_module: Any, call: Any) -> Any:
    """Return the graph that a delegate was given."""
    return getattr(graph_module, call.args[0].target).original_module.graph


def _is_instruction(node: Any) -> bool:
    """Return whether a node became an instruction; allocations, views and elements did not."""
    return node.op == "call_function" and (_is_delegate(node) or hasattr(node.target, "_schema"))


def _is_delegate(node: Any) -> bool:
    return _name(node) == "executorch_call_delegate"


def _name(node: Any) -> str:
    """Return what a node calls."""
    return getattr(node.target, "__name__", "")


def _number(node: Any) -> Any:
    return node.meta.get("debug_handle")
