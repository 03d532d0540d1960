"""TVM's remainder by infinity is NaN.

It is computed as x - floor(x / y) * y, and 0 * inf is NaN; the remainder of 1 by infinity is 1.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

PACKAGES = ("apache-tvm",)
RUNNER = "tvm"
TOOL = "TVM"
WHERE = "tvm/relax/frontend/torch/exported_program_translator.py: remainder.Tensor is floor_mod; topi.floor_mod"
MENDED_BY = "infinity set apart"
LIMIT = 1e-6
ERROR = ""
VARIES = ""


class _Failing(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.remainder(x, y)


class _Right(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.where(torch.isinf(y) & (x >= 0), x, torch.remainder(x, torch.where(torch.isinf(y), 1.0, y)))


def inputs() -> dict[str, Tensor]:
    """Return four positive numbers and their divisors, two of them infinite."""
    infinity = float("inf")
    return {"x": torch.tensor([0.5, 1.0, 5.0, 7.0]), "y": torch.tensor([infinity, infinity, 3.0, 4.0])}


def expected(inputs: Mapping[str, Tensor]) -> np.ndarray:
    """Return PyTorch's result in float64."""
    return _Failing()(inputs["x"].double(), inputs["y"].double()).numpy()


def seen(inputs: Mapping[str, Tensor], mended: bool, run: Callable[..., Any]) -> np.ndarray:
    """Return what TVM computes."""
    return run(_Right() if mended else _Failing(), inputs)[0]
