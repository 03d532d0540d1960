"""One operator of a model that a runtime got wrong, cut out with its inputs, as it was found.

``program.pt2`` holds the operator and its weights as exported, ``right.pt2`` the same as it should be,
``expected.safetensors`` what is right, computed in float64, and ``finding.json`` the rest.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file

PROGRAM, RIGHT, EXPECTED, ABOUT = "program.pt2", "right.pt2", "expected.safetensors", "finding.json"


class FindingCase:
    """The finding whose files are in `folder`, in the form in which `repro` runs a defect."""

    error = ""

    def __init__(self, folder: Path):
        self.folder = folder

    def __getattr__(self, name: str) -> Any:
        """Return ``packages``, ``runner`` or ``limit`` from the folder."""
        if name not in ("packages", "runner", "limit"):
            raise AttributeError(f"a {type(self).__name__} has no attribute '{name}'")
        return json.loads((self.folder / ABOUT).read_text(encoding="utf-8"))[name]

    def expected(self, inputs: Mapping[str, torch.Tensor]) -> np.ndarray:
        """Return what is right on these inputs, float64."""
        return load_file(self.folder / EXPECTED)["expected"].numpy()

    def seen(self, inputs: Mapping[str, torch.Tensor], mended: bool, run: Callable[..., Any] | None) -> np.ndarray:
        """Return what the runtime computes; mended: what PyTorch computes of the program as it should be."""
        module = PositionalProgram(torch.export.load(self.folder / (RIGHT if mended or run is None else PROGRAM)))
        if mended or run is None:
            with torch.no_grad():
                return module(*inputs.values()).numpy()
        return run(module, inputs)[0]


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


case = FindingCase(Path(__file__).parent)
