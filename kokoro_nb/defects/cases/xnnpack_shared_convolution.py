"""ExecuTorch cannot lower to XNNPACK a model that calls one conv1d twice.

Its pass writes conv1d as conv2d and gives the weight an axis, once for each call that reads it.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

PACKAGES = ("executorch",)
RUNNER = "xnnpack"
TOOL = "XNNPACK in ExecuTorch"
WHERE = "backends/xnnpack/_passes/conv1d_unsqueeze_pass.py: Conv1dUnsqueezePass"
MENDED_BY = "a convolution of its own for each call, with equal weights"
LIMIT = 1e-5
ERROR = "error occurred when running the 'Conv1dUnsqueezePass' pass"
VARIES = ""


class _Failing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = _convolution()

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(torch.sin(self.conv(x)))


class _Right(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = _convolution(), _convolution()

    def forward(self, x: Tensor) -> Tensor:
        return self.second(torch.sin(self.first(x)))


def _convolution() -> nn.Conv1d:
    conv = nn.Conv1d(2, 2, 3, padding=1)
    conv.weight = nn.Parameter(torch.linspace(-1.0, 1.0, 12).reshape(2, 2, 3))
    conv.bias = nn.Parameter(torch.tensor([0.5, -0.5]))
    return conv


def inputs() -> dict[str, Tensor]:
    """Return 16 numbers in two channels."""
    return {"x": torch.linspace(-2.0, 2.0, 16).reshape(1, 2, 8)}


def expected(inputs: Mapping[str, Tensor]) -> np.ndarray:
    """Return PyTorch's result in float64."""
    with torch.no_grad():
        return _Failing().double()(inputs["x"].double()).numpy()


def seen(inputs: Mapping[str, Tensor], mended: bool, run: Callable[..., Any]) -> np.ndarray:
    """Return what ExecuTorch computes."""
    return run(_Right() if mended else _Failing(), inputs)[0]
