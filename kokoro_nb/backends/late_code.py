"""Graphs whose Python code is written when they are run, and never where they are not; exports are the same.

PyTorch writes the code of a graph anew whenever a step of an export has changed it: thirty times for one export of a
decoder, a quarter of its time, and most of them are never run.
"""

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch
from weakref import WeakSet


@contextmanager
def late_code() -> Iterator[None]:
    """Have PyTorch write the code of graph modules late; for the whole process.

    What is left at the end of the block gets its code then.
    """
    from torch.fx import GraphModule

    codeless = _CodelessModules(GraphModule.recompile)

    def recompile(graph_module: Any) -> None:
        codeless.add(graph_module)

    try:
        with patch.object(GraphModule, "recompile", recompile):
            yield
    finally:
        codeless.write()


class _CodelessModules:
    """The graph modules that have no code for their graph yet."""

    def __init__(self, write_code: Any) -> None:
        self._write_code = write_code
        self._waiting: WeakSet[Any] = WeakSet()

    def add(self, graph_module: Any) -> None:
        """Take what `recompile` is called for: its code is written when it is run."""
        information = getattr(graph_module.graph._codegen, "pytree_info", None)
        if information is not None:
            graph_module._in_spec, graph_module._out_spec = information.in_spec, information.out_spec
        graph_module._code = ""  # its text is printed into debug messages that nobody reads
        type(graph_module).forward = self._forward(graph_module.graph, information)
        self._waiting.add(graph_module)

    def write(self) -> None:
        """Write the code of all that still wait."""
        for graph_module in list(self._waiting):
            self._write(graph_module)

    def _write(self, graph_module: Any) -> None:
        self._waiting.discard(graph_module)
        self._write_code(graph_module)

    def _forward(self, graph: Any, information: Any) -> Any:
        def forward(graph_module: Any, *arguments: Any, **named: Any) -> Any:
            self._write(graph_module)
            return graph_module(*arguments, **named)

        # by which exports name their inputs
        names = information.orig_args if information is not None else _placeholders(graph)
        forward.__signature__ = _signature(names)  # type: ignore[attr-defined]
        return forward


def _placeholders(graph: Any) -> list[str]:
    return [str(node.target) for node in graph.nodes if node.op == "placeholder"]


def _signature(names: list[str]) -> inspect.Signature:
    """Return the signature of a method with these parameters, of which ``*`` and ``**`` mark the variadic ones."""
    one = inspect.Parameter
    kinds = {"": one.POSITIONAL_OR_KEYWORD, "*": one.VAR_POSITIONAL, "**": one.VAR_KEYWORD}
    given = [inspect.Parameter(name.lstrip("*"), kinds[name[: -len(name.lstrip("*"))]]) for name in names]
    return inspect.Signature([inspect.Parameter("graph_module", kinds[""]), *given])
