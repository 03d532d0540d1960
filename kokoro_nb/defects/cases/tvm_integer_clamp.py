"""TVM cannot compile the clamp of integers to one bound.

The bound that is not given becomes an infinity, which no integer is.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

PACKAGES = ("apache-tvm",)
RUNNER = "tvm"
TOOL = "TVM"
WHERE = "tvm/relax/frontend/torch/base_fx_graph_translator.py: _clamp, math.inf"
MENDED_BY = "the maximum with a tensor"
LIMIT = 0.0
ERROR = "Cannot convert infinity to BigInt"
VARIES = ""


class _Failing(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.clamp(min=1)


class _Right(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.maximum(x, torch.ones_like(x))


def inputs() -> dict[str, Tensor]:
    """Return the integers -2 to 2."""
    return {"x": torch.arange(-2, 3)}


def expected(inputs: Mapping[str, Tensor]) -> np.ndarray:
    """Return what NumPy computes."""
    return np.maximum(inputs["x"].numpy(), 1)


def seen(inputs: Mapping[str, Tensor], mended: bool, run: Callable[..., Any]) -> np.ndarray:
    """Return what TVM computes."""
    return run(_Right() if mended else _Failing(), inputs)[0]
