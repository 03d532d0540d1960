"""XNNPACK's maximum of NaN and 0 is 0.

The kernel returns its second operand where the first is NaN; ExecuTorch's own kernel returns the NaN.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

PACKAGES = ("executorch",)
RUNNER = "xnnpack"
TOOL = "XNNPACK in ExecuTorch"
WHERE = (
    "XNNPACK's kernel, given the operator by MaximumConfig; backends/xnnpack/partition/config/generic_node_configs.py"
)
MENDED_BY = "NaN put back by a comparison"
LIMIT = 0.0
ERROR = ""
VARIES = "XNNPACK picks its kernels for the processor; seen with AVX-512."


class _Failing(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.maximum(x, y)


class _Right(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.where(x == x, torch.maximum(x, y), x)


def inputs() -> dict[str, Tensor]:
    """Return 32 numbers, every fourth of them NaN, and zeros."""
    return {"x": torch.tensor([-1.0, 0.0, 1.0, float("nan")] * 8), "y": torch.zeros(32)}


def expected(inputs: Mapping[str, Tensor]) -> np.ndarray:
    """Return what NumPy computes."""
    return np.maximum(inputs["x"].numpy(), inputs["y"].numpy())


def seen(inputs: Mapping[str, Tensor], mended: bool, run: Callable[..., Any]) -> np.ndarray:
    """Return what ExecuTorch computes."""
    return run(_Right() if mended else _Failing(), inputs)[0]
