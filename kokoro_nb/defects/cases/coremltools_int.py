"""coremltools cannot convert new_ones and whatever else takes an integer from a tensor of one element.

Its converter of aten::Int calls int() on an array with one axis, which NumPy refuses since 2.4.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

PACKAGES = ("coremltools", "numpy")
RUNNER = "coremltools"
TOOL = "coremltools"
WHERE = "coremltools/converters/mil/frontend/torch/ops.py: _cast"
MENDED_BY = "full_like, which takes no size"
LIMIT = 0.0
ERROR = "only 0-dimensional arrays can be converted to Python scalars"
VARIES = ""


class _Failing(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.new_ones(x.shape) + x


class _Right(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.full_like(x, 1.0) + x


def inputs() -> dict[str, Tensor]:
    """Return 0 to 3."""
    return {"x": torch.arange(4.0)}


def expected(inputs: Mapping[str, Tensor]) -> np.ndarray:
    """Return what NumPy computes."""
    return inputs["x"].numpy() + 1


def seen(inputs: Mapping[str, Tensor], mended: bool, run: Callable[..., Any]) -> np.ndarray:
    """Return what the converted program computes."""
    return run(_Right() if mended else _Failing(), inputs, traced=True)[0]
