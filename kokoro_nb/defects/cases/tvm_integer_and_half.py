"""TVM's importer rounds 0.5 to 0 where it is added to integers.

A number beside a tensor is made a constant of the tensor's dtype; PyTorch would make the result a float.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

PACKAGES = ("apache-tvm",)
RUNNER = "tvm"
TOOL = "TVM"
WHERE = "tvm/relax/frontend/torch/base_fx_graph_translator.py: _binary_op, call_binary_op"
MENDED_BY = "the tensor cast to float before"
LIMIT = 0.0
ERROR = ""
VARIES = ""


class _Failing(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + 0.5


class _Right(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.float() + 0.5


def inputs() -> dict[str, Tensor]:
    """Return the integers 0 to 3."""
    return {"x": torch.arange(4)}


def expected(inputs: Mapping[str, Tensor]) -> np.ndarray:
    """Return what NumPy computes."""
    return inputs["x"].numpy() + 0.5


def seen(inputs: Mapping[str, Tensor], mended: bool, run: Callable[..., Any]) -> np.ndarray:
    """Return what TVM computes."""
    return run(_Right() if mended else _Failing(), inputs)[0]
