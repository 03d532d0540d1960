"""XNNPACK's exp of NaN is 0.

The kernel for the processor does not let NaN through; ExecuTorch's own does.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

PACKAGES = ("executorch",)
RUNNER = "xnnpack"
TOOL = "XNNPACK in ExecuTorch"
WHERE = "XNNPACK's kernel, given the operator by ExpConfig; backends/xnnpack/partition/config/generic_node_configs.py"
MENDED_BY = "NaN put back by a comparison"
LIMIT = 1e-5
ERROR = ""
VARIES = "XNNPACK picks its kernels for the processor; seen with AVX-512."


class _Failing(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.exp(x)


class _Right(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.where(x == x, torch.exp(x), x)


def inputs() -> dict[str, Tensor]:
    """Return 32 numbers, every fourth of them NaN."""
    return {"x": torch.tensor([-1.0, 0.0, 1.0, float("nan")] * 8)}


def expected(inputs: Mapping[str, Tensor]) -> np.ndarray:
    """Return PyTorch's result in float64."""
    return _Failing()(inputs["x"].double()).numpy()


def seen(inputs: Mapping[str, Tensor], mended: bool, run: Callable[..., Any]) -> np.ndarray:
    """Return what ExecuTorch computes."""
    return run(_Right() if mended else _Failing(), inputs)[0]
