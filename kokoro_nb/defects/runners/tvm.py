"""TVM's importer of exported programs, its compiler and its virtual machine, all as they come."""

from collections.abc import Mapping

import numpy as np
import torch


def run(module: torch.nn.Module, *calls: Mapping[str, torch.Tensor], fused: bool = False) -> list[np.ndarray]:
    """Export `module` for the first of `calls` and return its first output on each.

    Parameters
    ----------
    fused : bool
        Compile with the pipeline that joins operators, `tvm.relax.get_default_pipeline`.
    """
    import tvm
    from tvm.relax.frontend.torch import from_exported_program

    with torch.no_grad():
        program = torch.export.export(module.eval(), tuple(calls[0].values()))
    target = tvm.target.Target("llvm")
    pipeline = tvm.relax.get_default_pipeline(target) if fused else "default"
    built = tvm.compile(from_exported_program(program), target=target, relax_pipeline=pipeline)
    machine = tvm.relax.VirtualMachine(built, tvm.cpu())
    return [
        machine["main"](*(tvm.runtime.tensor(value.numpy()) for value in inputs.values()))[0].numpy()
        for inputs in calls
    ]
