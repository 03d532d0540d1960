"""TVM's clamp gives a bound for NaN.

Clamp, relu, minimum and maximum are compared with <, which no NaN passes, so that the bound is taken in its place.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

PACKAGES = ("apache-tvm",)
RUNNER = "tvm"
TOOL = "TVM"
WHERE = "tvm/relax/frontend/torch/base_fx_graph_translator.py: _clamp, relax.op.clip; so are maximum and relu"
MENDED_BY = "NaN put back by isnan"
LIMIT = 0.0
ERROR = ""
VARIES = ""


class _Failing(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.clamp(-1.0, 1.0)


class _Right(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.where(torch.isnan(x), x, x.clamp(-1.0, 1.0))


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
