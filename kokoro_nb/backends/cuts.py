"""Where an exported program can be cut, and the parts that come of it."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from kokoro_nb.backends.called_operators import is_element
from kokoro_nb.backends.exported import Exported
from kokoro_nb.backends.segment import Segment, part, result_nodes


@dataclass(frozen=True, eq=False)
class Cuts:
    """A program as a row of units: one operator that computes, and the views and the like that follow it.

    Two operators are in one unit where a value between them is no operator's result, and so has nothing that it could
    be replaced by.
    """

    exported: Exported

    def __len__(self) -> int:
        return len(self._starts)

    def names(self, first: int, stop: int) -> tuple[str, ...]:
        """Return the operators of the units from `first` to before `stop` that have a result, in their order."""
        positions = range(self._start(first), self._start(stop))
        return tuple(self._names[self._nodes[place]] for place in positions if self._nodes[place] in self._names)

    def part(self, first: int, stop: int, inside: bool = False) -> Segment | None:
        """Return the units from `first` to before `stop` as a program, fed with the results of all before them.

        Parameters
        ----------
        first, stop : int
            Units, counted from 0.
        inside : bool
            Make an output of every operator's result; else of those that are read later, or are outputs.

        Returns
        -------
        Segment or None
            None if nothing in it is read later.
        """
        end, wanted = self._start(stop), [*self.names(first, stop)]
        if not inside:
            wanted = [name for name in wanted if self._last_read[self._results[name]] >= end]
        if not wanted:
            return None
        return part(self.exported, {*self.names(0, first)}, wanted)

    @cached_property
    def _nodes(self) -> list[Any]:
        graph = self.exported.specification.program.graph
        return [node for node in graph.nodes if node.op == "call_function"]

    @cached_property
    def _results(self) -> dict[str, Any]:
        return result_nodes(self.exported)

    @cached_property
    def _names(self) -> dict[Any, str]:
        return {node: name for name, node in self._results.items()}

    @cached_property
    def _last_read(self) -> dict[Any, int]:
        """Node -> position of the last node that reads it; that of an output is beyond all."""
        positions = {node: place for place, node in enumerate(self._nodes)}
        beyond = len(self._nodes)
        return {
            node: max((positions.get(user, beyond) for user in node.users), default=positions[node])
            for node in self._nodes
        }

    @cached_property
    def _starts(self) -> list[int]:
        """Positions at which a unit begins."""
        starts = [0]
        needed_until = 0  # the last position that reads a value which is no operator's result
        for place, node in enumerate(self._nodes):
            if place and place > needed_until and _computes(node):
                starts.append(place)
            if node not in self._names:
                needed_until = max(needed_until, self._last_read[node])
        return starts

    def _start(self, unit: int) -> int:
        return self._starts[unit] if unit < len(self) else len(self._nodes)


def _computes(node: Any) -> bool:
    """Return whether a node computes something, rather than showing what is there in another way."""
    import torch

    return not (
        getattr(node.target, "is_view", False) or is_element(node) or node.target is torch.ops.aten._unsafe_view.default
    )
