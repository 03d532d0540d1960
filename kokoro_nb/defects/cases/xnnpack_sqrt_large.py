"""XNNPACK's square root of infinity is NaN, and of 3e38 it is half too large.

The figures fit an estimate of the reciprocal root, corrected by a step of Newton's: 0 * inf at infinity, and at 3e38
a correction that is lost.
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
    "XNNPACK's kernel, given the operator by SquareRootConfig; "
    "backends/xnnpack/partition/config/generic_node_configs.py"
)
MENDED_BY = "the root of a quarter, doubled, and infinity set apart"
LIMIT = 1e-5
ERROR = ""
VARIES = "XNNPACK picks its kernels for the processor; seen with AVX-512."


class _Failing(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.sqrt(x)


class _Right(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.where(x > 3.4e38, x, 4 * torch.sqrt(x * 0.0625))


def inputs() -> dict[str, Tensor]:
    """Return 24 numbers from 0 to infinity."""
    return {"x": torch.tensor([0.0, 1.0, 1e30, 1e38, 3e38, float("inf")] * 4)}


def expected(inputs: Mapping[str, Tensor]) -> np.ndarray:
    """Return PyTorch's result in float64."""
    return _Failing()(inputs["x"].double()).numpy()


def seen(inputs: Mapping[str, Tensor], mended: bool, run: Callable[..., Any]) -> np.ndarray:
    """Return what ExecuTorch computes."""
    return run(_Right() if mended else _Failing(), inputs)[0]
