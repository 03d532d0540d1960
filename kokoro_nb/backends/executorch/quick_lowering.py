"""Lowering by ExecuTorch without the work whose result nobody reads; the file is the same to the byte.

After each of its passes, most of which find nothing to do, ExecuTorch traces the graph anew, and PyTorch writes Python
code for it: for a decoder that XNNPACK takes in 46 pieces that is a third of the processor's time. Before its passes
ExecuTorch decomposes the program four times, of which one finds something to decompose: a sixth of what is left.
"""

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

from kokoro_nb.backends.executorch.remembered_results import RememberedResults
from kokoro_nb.backends.late_code import late_code
from kokoro_nb.backends.quick_decompositions import quick_decompositions

_TRACED = "_content_when_traced"  # an attribute of a graph, which is gone with it
_FUNCTIONAL = "ATEN"  # the dialect of a program in which torch has allowed no operator that writes in place
_HOOKS = ("inputs", "on_attr", "placeholder", "output")  # what a pass may do in a trace, beside its methods `call_...`


@contextmanager
def quick_lowering() -> Iterator[None]:
    """Have passes of ExecuTorch leave a graph alone that they have not changed, and write code only where it is run.

    What is traced is not traced again as long as its nodes, their targets and their arguments are the same objects: a
    trace that changes no operator gives a copy of it. A program without writes in place that has no operator to be
    decomposed comes back itself. What an operator returns for tensors without values is remembered. All of it holds for
    the whole process while the block is open.
    """
    from executorch.exir.dialects.edge._ops import EdgeOpOverload
    from executorch.exir.graph_module import contains_any_call_fn_target_op
    from executorch.exir.pass_base import _ExportPassBase
    from torch.export import ExportedProgram

    traces = _Traces(_ExportPassBase.call)

    def call(a_pass: Any, graph_module: Any) -> Any:
        return traces.call(a_pass, graph_module)

    results = RememberedResults(EdgeOpOverload.__call__)

    def call_operator(operator: Any, /, *args: Any, **kwargs: Any) -> Any:
        return results.of(operator, *args, **kwargs)

    without_lines = partial(inspect.stack, 0)  # a partitioner looks for the name of a function that has called it

    with (
        late_code(),
        quick_decompositions(),
        patch.object(_ExportPassBase, "call", call),
        patch.object(EdgeOpOverload, "__call__", call_operator),
        patch.object(inspect, "stack", without_lines),
    ):
        decompose = ExportedProgram.run_decompositions

        def run_decompositions(program: Any, table: Any = None, *more: Any, **options: Any) -> Any:
            functional = table is not None and program.dialect == _FUNCTIONAL
            if functional and not contains_any_call_fn_target_op(program.graph_module, table):
                return program
            return decompose(program, table, *more, **options)

        with patch.object(ExportedProgram, "run_decompositions", run_decompositions):
            yield


class _Traces:
    """Traces of graphs, but of none that a trace has made and nothing has changed since."""

    def __init__(self, trace: Any) -> None:
        self._trace = trace
        self._copies: dict[type, bool] = {}

    def call(self, a_pass: Any, graph_module: Any) -> Any:
        """Trace the graph as this pass does, unless that would give a copy of it."""
        from torch.fx.passes.infra.pass_base import PassResult

        copies = self._only_copies(type(a_pass))
        before = getattr(graph_module.graph, _TRACED, None) if copies else None
        if before is not None and _same(before, _content(graph_module.graph)):
            return PassResult(graph_module, True)
        result = self._trace(a_pass, graph_module)
        if copies:
            graph = result.graph_module.graph
            setattr(graph, _TRACED, _content(graph))
        return result

    def _only_copies(self, kind: type) -> bool:
        """Return whether a trace by this kind of pass changes nothing: none of its hooks is its own."""
        from executorch.exir.pass_base import ExportPass, _ExportPassBase

        if kind not in self._copies:
            hooks = [name for name in dir(_ExportPassBase) if name.startswith("call_") or name in _HOOKS]
            general = (_ExportPassBase, ExportPass)
            self._copies[kind] = all(
                any(getattr(kind, hook) is getattr(one, hook) for one in general) for hook in hooks
            )
        return self._copies[kind]


def _content(graph: Any) -> list[tuple[Any, ...]]:
    """Return what decides what a graph computes; arguments are replaced, never changed, where a pass edits a node."""
    return [(node, node.target, node.args, node.kwargs) for node in graph.nodes]


def _same(before: list[tuple[Any, ...]], now: list[tuple[Any, ...]]) -> bool:
    return len(before) == len(now) and all(
        one is other
        for row, other_row in zip(before, now, strict=True)
        for one, other in zip(row, other_row, strict=True)
    )
