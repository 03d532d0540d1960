"""TVM's argmax passes over NaN.

The reduction keeps the larger of two by a comparison, which no NaN passes; PyTorch returns where the NaN is.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

PACKAGES = ("apache-tvm",)
RUNNER = "tvm"
TOOL = "TVM"
WHERE = "topi.argmax, by tvm/relax/transform/legalize_ops/search.py"
MENDED_BY = "NaN asked for first, as an infinity"
LIMIT = 0.0
ERROR = ""
VARIES = ""


class _Failing(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.argmax(0)


class _Right(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.where(torch.isnan(x), float("inf"), x).argmax(0)


def inputs() -> dict[str, Tensor]:
    """Return four numbers, the second of them NaN."""
    return {"x": torch.tensor([1.0, float("nan"), 3.0, 2.0])}


def expected(inputs: Mapping[str, Tensor]) -> np.ndarray:
    """Return PyTorch's result in float64."""
    return _Failing()(inputs["x"].double()).numpy()


def seen(inputs: Mapping[str, Tensor], mended: bool, run: Callable[..., Any]) -> np.ndarray:
    """Return what TVM computes."""
    return run(_Right() if mended else _Failing(), inputs)[0]
