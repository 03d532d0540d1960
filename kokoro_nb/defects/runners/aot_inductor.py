"""AOTInductor as it comes: a package that is compiled, written and loaded again."""

import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch


def run(module: torch.nn.Module, *calls: Mapping[str, torch.Tensor]) -> list[np.ndarray]:
    """Compile `module` for the first of `calls` and return its first output on each."""
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        program = torch.export.export(module.eval(), tuple(calls[0].values()))
        path = torch._inductor.aoti_compile_and_package(program, package_path=str(Path(folder) / "model.pt2"))
        compiled = torch._inductor.aoti_load_package(path)
        return [np.array(torch.atleast_1d(compiled(*inputs.values())).numpy()) for inputs in calls]
