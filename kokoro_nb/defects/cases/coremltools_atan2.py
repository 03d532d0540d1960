"""atan2 of two numbers of 1e-9 is 0.05 in Core ML, and not pi / 4.

It is written as atan(y / x), and 2e-8 is added to an x within 1e-8 of 0.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

PACKAGES = ("coremltools",)
RUNNER = "coremltools"
TOOL = "coremltools"
WHERE = "coremltools/converters/mil/frontend/torch/ops.py: atan2"
MENDED_BY = "both scaled up before"
LIMIT = 1e-5
ERROR = ""
VARIES = ""


class _Failing(nn.Module):
    def forward(self, y: Tensor, x: Tensor) -> Tensor:
        return torch.atan2(y, x)


class _Right(nn.Module):
    def forward(self, y: Tensor, x: Tensor) -> Tensor:
        return torch.atan2(y * 1e6, x * 1e6)


def inputs() -> dict[str, Tensor]:
    """Return four pairs of small numbers."""
    return {"y": torch.full((4,), 1e-9), "x": torch.tensor([1e-9, 2e-9, -1e-9, -2e-9])}


def expected(inputs: Mapping[str, Tensor]) -> np.ndarray:
    """Return what NumPy computes in float64."""
    return np.arctan2(inputs["y"].double().numpy(), inputs["x"].double().numpy())


def seen(inputs: Mapping[str, Tensor], mended: bool, run: Callable[..., Any]) -> np.ndarray:
    """Return what the converted program computes."""
    return run(_Right() if mended else _Failing(), inputs)[0]
