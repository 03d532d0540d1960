"""ExecuTorch with XNNPACK's partitioner, as it comes, and without one."""

from collections.abc import Mapping

import numpy as np
import torch


def run(module: torch.nn.Module, *calls: Mapping[str, torch.Tensor], delegated: bool = True) -> list[np.ndarray]:
    """Lower `module` for the first of `calls` and return its first output on each.

    Parameters
    ----------
    delegated : bool
        Ask the partitioner; without it ExecuTorch's own kernels run.
    """
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import to_edge_transform_and_lower
    from executorch.runtime import Runtime

    exported = torch.export.export(module.eval(), tuple(calls[0].values()))
    edge = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()] if delegated else [])
    program = Runtime.get().load_program(edge.to_executorch().buffer)
    method = program.load_method("forward")
    assert method is not None
    return [np.array(method.execute(list(inputs.values()))[0].numpy()) for inputs in calls]
