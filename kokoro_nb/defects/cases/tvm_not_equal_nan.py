"""TVM finds NaN equal to NaN.

What asks for NaN by x != x is folded, or compiled to a comparison that NaN does not pass.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

PACKAGES = ("apache-tvm",)
RUNNER = "tvm"
TOOL = "TVM"
WHERE = (
    "the simplifier of TIR expressions and the comparison that is compiled, tvm/relax/transform/legalize_ops/binary.py"
)
MENDED_BY = "torch.isnan"
LIMIT = 0.0
ERROR = ""
VARIES = ""


class _Failing(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x != x


class _Right(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.isnan(x)


def inputs() -> dict[str, Tensor]:
    """Return the values at the edges."""
    infinity = float("inf")
    return {"x": torch.tensor([-infinity, -1.0, 0.0, 2.0, infinity, float("nan")])}


def expected(inputs: Mapping[str, Tensor]) -> np.ndarray:
    """Return PyTorch's result in float64."""
    return _Failing()(inputs["x"].double()).numpy()


def seen(inputs: Mapping[str, Tensor], mended: bool, run: Callable[..., Any]) -> np.ndarray:
    """Return what TVM computes."""
    return run(_Right() if mended else _Failing(), inputs)[0]
