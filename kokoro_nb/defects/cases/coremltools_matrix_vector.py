"""coremltools cannot convert the product of a matrix and a vector in a trace.

Its check of the shapes reads the second axis from the end of both operands.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

PACKAGES = ("coremltools",)
RUNNER = "coremltools"
TOOL = "coremltools"
WHERE = "coremltools/converters/mil/mil/ops/defs/iOS15/linear.py: matmul, x_shape[-1] == y_shape[-2]"
MENDED_BY = "the vector with a second axis"
LIMIT = 1e-6
ERROR = "list index out of range"
VARIES = ""


class _Failing(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x @ y


class _Right(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return (x * y).sum(1)


def inputs() -> dict[str, Tensor]:
    """Return a matrix and a vector."""
    return {"x": torch.eye(3), "y": torch.arange(3.0)}


def expected(inputs: Mapping[str, Tensor]) -> np.ndarray:
    """Return PyTorch's result in float64."""
    return (inputs["x"] @ inputs["y"]).numpy()


def seen(inputs: Mapping[str, Tensor], mended: bool, run: Callable[..., Any]) -> np.ndarray:
    """Return what the converted program computes."""
    return run(_Right() if mended else _Failing(), inputs, traced=True)[0]
