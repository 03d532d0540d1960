"""One operator of a model that a runtime got wrong, cut out with what went into it, as it was found.

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
ERROR = ""
_HERE = Path(__file__).parent


def __getattr__(name: str) -> Any:
    """Return ``PACKAGES``, ``RUNNER`` or ``LIMIT`` from the file beside this one."""
    if name not in ("PACKAGES", "RUNNER", "LIMIT"):
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    about = json.loads((_HERE / ABOUT).read_text(encoding="utf-8"))
    return {"PACKAGES": tuple(about["packages"]), "RUNNER": about["runner"], "LIMIT": about["limit"]}[name]


def expected(inputs: Mapping[str, torch.Tensor]) -> np.ndarray:
    """Return what is right on these inputs, float64."""
    return load_file(_HERE / EXPECTED)["expected"].numpy()


def seen(inputs: Mapping[str, torch.Tensor], mended: bool, run: Callable[..., Any] | None) -> np.ndarray:
    """Return what the runtime computes; mended: what PyTorch computes of the program as it should be."""
    module = _Positional(torch.export.load(_HERE / (RIGHT if mended or run is None else PROGRAM)))
    if mended or run is None:
        with torch.no_grad():
            return module(*inputs.values()).numpy()
    return run(module, inputs)[0]


class _Positional(torch.nn.Module):
    """An exported program as a module that takes its inputs in order and gives its first result."""

    def __init__(self, program: torch.export.ExportedProgram):
        super().__init__()
        self.module, self.takes = program.module(), program.call_spec.in_spec

    def eval(self) -> "_Positional":
        """Return itself: an exported program has no training mode, and refuses to be asked."""
        return self

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        """Return the first result."""
        args, kwargs = torch.utils._pytree.tree_unflatten(list(inputs), self.takes)
        return torch.utils._pytree.tree_leaves(self.module(*args, **kwargs))[0]
