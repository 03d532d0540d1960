"""One operator of a model that a runtime got wrong, cut out with its inputs: what the script of a finding runs."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file


class PositionalProgram(torch.nn.Module):
    """An exported program as a module that takes its inputs in order and gives its first result."""

    def __init__(self, program: torch.export.ExportedProgram):
        super().__init__()
        self.module: Any = program.module()
        self.takes, self.gives = program.call_spec

    def eval(self) -> "PositionalProgram":
        """Return itself: an exported program has no training mode, and refuses to be asked."""
        return self

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        """Return the first result."""
        args, kwargs = self.takes.unflatten(inputs)
        return self.gives.flatten_up_to(self.module(*args, **kwargs))[0]


class FindingCase:
    """The finding whose files are in `folder`, in the form in which `repro` runs a defect.

    ``program.pt2`` holds the operator and its weights as exported, ``right.pt2`` the same as it should be,
    ``values.safetensors`` its inputs and what is right, computed in float64, and ``finding.json`` the rest.
    """

    error = ""

    def __init__(self, folder: Path):
        self.folder, values = folder, load_file(folder / "values.safetensors")
        about = json.loads((folder / "finding.json").read_text(encoding="utf-8"))
        self.limit, self.right = float(about["limit"]), values["right result"]
        self.inputs = {name: values[name] for name in about["inputs"]}

    def expected(self, inputs: Mapping[str, torch.Tensor]) -> np.ndarray:
        """Return what is right on the inputs, float64."""
        return self.right.numpy()

    def seen(self, inputs: Mapping[str, torch.Tensor], mended: bool, run: Callable[..., Any]) -> np.ndarray:
        """Return what the runtime computes; mended: what PyTorch computes of the program as it should be."""
        module = PositionalProgram(torch.export.load(self.folder / ("right.pt2" if mended else "program.pt2")))
        if not mended:
            return run(module, inputs)[0]
        with torch.no_grad():
            return module(*inputs.values()).numpy()
