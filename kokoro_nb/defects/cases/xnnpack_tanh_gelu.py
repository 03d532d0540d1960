"""XNNPACK computes gelu by erf where gelu by tanh is asked for.

The partitioner takes the operator without a look at approximate, and XNNPACK's gelu is the one with erf.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

PACKAGES = ("executorch",)
RUNNER = "xnnpack"
TOOL = "XNNPACK in ExecuTorch"
WHERE = "backends/xnnpack/partition/config/generic_node_configs.py: GeluConfig; operators/op_gelu.py"
MENDED_BY = "the formula written out (models.gelu.tanh_gelu_written_out)"
LIMIT = 1e-5
ERROR = ""
VARIES = ""


class _Failing(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.gelu(x, approximate="tanh")


class _Right(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return 0.5 * x * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x * x * x)))


def inputs() -> dict[str, Tensor]:
    """Return 401 numbers from -6 to 6."""
    return {"x": torch.linspace(-6, 6, 401)}


def expected(inputs: Mapping[str, Tensor]) -> np.ndarray:
    """Return PyTorch's result in float64."""
    return _Failing()(inputs["x"].double()).numpy()


def seen(inputs: Mapping[str, Tensor], mended: bool, run: Callable[..., Any]) -> np.ndarray:
    """Return what ExecuTorch computes."""
    return run(_Right() if mended else _Failing(), inputs)[0]
