"""TVM's max pooling passes over NaN.

The maximum of a window is taken by a comparison, which no NaN passes.
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
WHERE = "topi.nn.pool1d, by tvm/relax/transform/legalize_ops/nn.py"
MENDED_BY = "NaN found by a pooling of its own"
LIMIT = 0.0
ERROR = ""
VARIES = ""


class _Failing(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.max_pool1d(x, 2)


class _Right(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        unknown = F.max_pool1d(torch.where(torch.isnan(x), 1.0, 0.0), 2)
        return torch.where(unknown > 0, float("nan"), F.max_pool1d(x, 2))


def inputs() -> dict[str, Tensor]:
    """Return three windows of two; in two of them is a NaN."""
    unknown = float("nan")
    return {"x": torch.tensor([[[1.0, unknown, unknown, 3.0, 4.0, 5.0]]])}


def expected(inputs: Mapping[str, Tensor]) -> np.ndarray:
    """Return PyTorch's result in float64."""
    return _Failing()(inputs["x"].double()).numpy()


def seen(inputs: Mapping[str, Tensor], mended: bool, run: Callable[..., Any]) -> np.ndarray:
    """Return what TVM computes."""
    return run(_Right() if mended else _Failing(), inputs)[0]
