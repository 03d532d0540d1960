"""XNNPACK's sine of 3e38 is NaN.

The kernel has no case for arguments that its reduction to one period cannot hold; ExecuTorch's own has.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

PACKAGES = ("executorch",)
RUNNER = "xnnpack"
TOOL = "XNNPACK in ExecuTorch"
WHERE = "XNNPACK's kernel, given the operator by SinConfig; backends/xnnpack/partition/config/generic_node_configs.py"
MENDED_BY = "ExecuTorch's own kernels, without the delegate"
LIMIT = 1e-5
ERROR = ""
VARIES = "XNNPACK picks its kernels for the processor; seen with AVX-512."


class _Sine(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.sin(x)


def inputs() -> dict[str, Tensor]:
    """Return 32 numbers, half of them of 3e38."""
    return {"x": torch.tensor([-3e38, -1.0, 1.0, 3e38] * 8)}


def expected(inputs: Mapping[str, Tensor]) -> np.ndarray:
    """Return PyTorch's result in float64."""
    return torch.sin(inputs["x"].double()).numpy()


def seen(inputs: Mapping[str, Tensor], mended: bool, run: Callable[..., Any]) -> np.ndarray:
    """Return what ExecuTorch computes."""
    return run(_Sine(), inputs, delegated=not mended)[0]
