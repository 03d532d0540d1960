"""The Edge program, ExecuTorch's own dialect, as it stands just before a delegate takes its share of it."""

import copy
from collections.abc import Callable
from typing import Any

from kokoro_nb.backends.exported import Exported

Look = Callable[[Any, Any], None]


def edge_program(exported: Exported, partitioner: Any | None, look: Look | None = None) -> Any:
    """Return the Edge program with nothing delegated.

    Parameters
    ----------
    exported : Exported
        What is lowered.
    partitioner : executorch.exir.backend.partitioner.Partitioner or None
        Whose delegate the program is made for: it has operators kept whole that are decomposed otherwise.
    look : callable, optional
        Called with the partitioner and the program when the partitioner's turn has come. The program's tensors hold
        no data then.

    Returns
    -------
    torch.export.ExportedProgram
    """
    from executorch.exir import to_edge_transform_and_lower

    chain = [] if partitioner is None else [_watching(partitioner, look)]
    return to_edge_transform_and_lower(own_copy(exported), partitioner=chain).exported_program()


def own_copy(exported: Exported) -> Any:
    """Return a copy of the exported program: partitioners take constants out of it."""
    return copy.deepcopy(exported.program)


def _watching(partitioner: Any, look: Look | None) -> Any:
    """Return a partitioner that prepares the graph as `partitioner` does, and takes nothing."""
    from executorch.exir.backend.partitioner import Partitioner, PartitionResult

    class Watching(Partitioner):
        done = False

        def ops_to_not_decompose(self, ep: Any) -> Any:
            kept, fits = partitioner.ops_to_not_decompose(ep)
            # asked again afterwards, to complain of what was kept and not delegated: that is all of it here
            return (kept, lambda node: False) if self.done else (kept, fits)

        def transform_for_pre_decomposition(self, exported_program: Any) -> Any:
            return partitioner.transform_for_pre_decomposition(exported_program)

        def partition(self, exported_program: Any) -> Any:
            self.done = True
            if look is not None:
                look(partitioner, exported_program)
            for node in exported_program.graph.nodes:
                node.meta.pop("delegation_tag", None)
            return PartitionResult(tagged_exported_program=exported_program, partition_tags={})

    return Watching()
