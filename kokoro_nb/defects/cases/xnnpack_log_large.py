"""XNNPACK's logarithm of 3e38 is infinite.

The kernel takes the largest numbers for infinity; ExecuTorch's own kernel does not.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

PACKAGES = ("executorch",)
RUNNER = "xnnpack"
TOOL = "XNNPACK in ExecuTorch"
WHERE = "XNNPACK's kernel, given the operator by LogConfig; backends/xnnpack/partition/config/generic_node_configs.py"
MENDED_BY = "the logarithm of a quarter and that of 4"
LIMIT = 1e-5
ERROR = ""
VARIES = "XNNPACK picks its kernels for the processor; seen with AVX-512."


class _Failing(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.log(x)


class _Right(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.log(x * 0.25) + 1.3862943611198906


def inputs() -> dict[str, Tensor]:
    """Return 32 numbers, every fourth of them 3e38."""
    return {"x": torch.tensor([1.0, 10.0, 1e38, 3e38] * 8)}


def expected(inputs: Mapping[str, Tensor]) -> np.ndarray:
    """Return PyTorch's result in float64."""
    return _Failing()(inputs["x"].double()).numpy()


def seen(inputs: Mapping[str, Tensor], mended: bool, run: Callable[..., Any]) -> np.ndarray:
    """Return what ExecuTorch computes."""
    return run(_Right() if mended else _Failing(), inputs)[0]
