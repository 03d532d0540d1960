"""XNNPACK's reciprocal root of 0 is NaN.

The figure fits an estimate that is infinite there, corrected by a step of Newton's: 0 * inf.
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
    "XNNPACK's kernel, given the operator by ReciprocalSquareRootConfig; "
    "backends/xnnpack/partition/config/generic_node_configs.py"
)
MENDED_BY = "the quotient of 1 and the root"
LIMIT = 1e-5
ERROR = ""
VARIES = "XNNPACK picks its kernels for the processor; seen with AVX-512."


class _Failing(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.rsqrt(x)


class _Right(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return 1 / torch.sqrt(x)


def inputs() -> dict[str, Tensor]:
    """Return 32 numbers, every fourth of them 0."""
    return {"x": torch.tensor([0.0, 1e-30, 1.0, 4.0] * 8)}


def expected(inputs: Mapping[str, Tensor]) -> np.ndarray:
    """Return PyTorch's result in float64."""
    return _Failing()(inputs["x"].double()).numpy()


def seen(inputs: Mapping[str, Tensor], mended: bool, run: Callable[..., Any]) -> np.ndarray:
    """Return what ExecuTorch computes."""
    return run(_Right() if mended else _Failing(), inputs)[0]
