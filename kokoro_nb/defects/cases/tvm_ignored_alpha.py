"""TVM's importer drops alpha from torch.add and torch.sub.

The converter of binary operators reads the two operands alone, so that x + 2 y becomes x + y.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

PACKAGES = ("apache-tvm",)
RUNNER = "tvm"
TOOL = "TVM"
WHERE = "tvm/relax/frontend/torch/base_fx_graph_translator.py: _binary_op"
MENDED_BY = "the product written out"
LIMIT = 0.0
ERROR = ""
VARIES = ""


class _Failing(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.add(x, y, alpha=2)


class _Right(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x + 2 * y


def inputs() -> dict[str, Tensor]:
    """Return two tensors of four numbers."""
    return {"x": torch.arange(4.0), "y": torch.ones(4)}


def expected(inputs: Mapping[str, Tensor]) -> np.ndarray:
    """Return x + 2 y."""
    return (inputs["x"] + 2 * inputs["y"]).numpy()


def seen(inputs: Mapping[str, Tensor], mended: bool, run: Callable[..., Any]) -> np.ndarray:
    """Return what TVM computes."""
    return run(_Right() if mended else _Failing(), inputs)[0]
