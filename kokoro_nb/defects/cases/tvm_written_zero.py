"""TVM takes x * 0 for 0, whatever x is.

The simplifier folds a product with a 0 that is written as a number, so that NaN and infinity end there.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

PACKAGES = ("apache-tvm",)
RUNNER = "tvm"
TOOL = "TVM"
WHERE = "the simplifier of TIR expressions, which folds the product for floats as for integers"
MENDED_BY = "a 0 that is an input"
LIMIT = 0.0
ERROR = ""
VARIES = ""


class _Failing(nn.Module):
    def forward(self, x: Tensor, zero: Tensor) -> Tensor:
        return x * 0


class _Right(nn.Module):
    def forward(self, x: Tensor, zero: Tensor) -> Tensor:
        return x * zero


def inputs() -> dict[str, Tensor]:
    """Return the values at the edges, and a tensor of zeros."""
    infinity = float("inf")
    x = torch.tensor([-infinity, -1.0, 0.0, 2.0, infinity, float("nan")])
    return {"x": x, "zero": torch.zeros(6)}


def expected(inputs: Mapping[str, Tensor]) -> np.ndarray:
    """Return PyTorch's result in float64."""
    return inputs["x"].double().numpy() * 0


def seen(inputs: Mapping[str, Tensor], mended: bool, run: Callable[..., Any]) -> np.ndarray:
    """Return what TVM computes."""
    return run(_Right() if mended else _Failing(), inputs)[0]
