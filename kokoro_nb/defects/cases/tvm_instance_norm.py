"""TVM's instance norm is NaN where the mean is large beside the deviation.

The variance is computed in one pass, E[x²] - E[x]², without a floor: rounding takes it below 0, and its root is NaN.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

PACKAGES = ("apache-tvm",)
RUNNER = "tvm"
TOOL = "TVM"
WHERE = "include/tvm/topi/nn/instance_norm.h: var = E[x * x] - mean * mean, from one reduction"
MENDED_BY = "the variance of what is left after the mean is taken away (the patch two_pass_norm)"
LIMIT = 1e-2  # rounding of the input alone, 5e-7, is 5e-5 of the deviation
ERROR = VARIES = ""
EPSILON = 1e-5


class _OnePass(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.instance_norm(x, eps=EPSILON)


class _TwoPasses(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        return centred * torch.rsqrt((centred * centred).mean(-1, keepdim=True) + EPSILON)


def inputs() -> dict[str, Tensor]:
    """Return 64 channels of 3840 numbers about 10, with a deviation of 0.01."""
    return {"x": 10 + 0.01 * torch.randn(1, 64, 3840, generator=torch.Generator().manual_seed(0))}


def expected(inputs: Mapping[str, Tensor]) -> np.ndarray:
    """Return PyTorch's result in float64."""
    return _OnePass()(inputs["x"].double()).numpy()


def seen(inputs: Mapping[str, Tensor], mended: bool, run: Callable[..., Any]) -> np.ndarray:
    """Return TVM's."""
    return run(_TwoPasses() if mended else _OnePass(), inputs)[0]
