"""TVM's importer of exported programs, its compiler and its virtual machine, all as they come."""

from collections.abc import Mapping

import numpy as np
import torch


def run(module: torch.nn.Module, *calls: Mapping[str, torch.Tensor]) -> list[np.ndarray]:
    """Export `module` for the first of `calls` and return its first output on each."""
    import tvm
    from tvm.relax.frontend.torch import from_exported_program

    with torch.no_grad():
        program = torch.export.export(module.eval(), tuple(calls[0].values()))
    machine = tvm.relax.VirtualMachine(tvm.compile(from_exported_program(program), target="llvm"), tvm.cpu())
    return [
        machine["main"](*(tvm.runtime.tensor(value.numpy()) for value in inputs.values()))[0].numpy()
        for inputs in calls
    ]
