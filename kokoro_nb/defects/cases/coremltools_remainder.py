"""x % 1 is 0 in Core ML.

The remainder is written as x - floor_div(x, 1) * 1, and noop_elimination takes a division by 1 for one that does
nothing: x - x is left.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

PACKAGES = ("coremltools",)
RUNNER = "coremltools"
TOOL = "coremltools"
WHERE = (
    "coremltools/converters/mil/mil/passes/defs/cleanup/noop_elimination.py: floor_div; "
    "frontend/torch/ops.py: remainder"
)
MENDED_BY = "x - floor(x) (the patch floor_phase)"
LIMIT = 1e-5
ERROR = ""
VARIES = ""


class _Failing(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x % 1


class _Right(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x - torch.floor(x)


def inputs() -> dict[str, Tensor]:
    """Return 160 numbers from 0 to 40."""
    return {"x": torch.linspace(0, 40, 161)[:-1]}


def expected(inputs: Mapping[str, Tensor]) -> np.ndarray:
    """Return PyTorch's result in float64."""
    return _Failing()(inputs["x"].double()).numpy()


def seen(inputs: Mapping[str, Tensor], mended: bool, run: Callable[..., Any]) -> np.ndarray:
    """Return what the converted program computes."""
    return run(_Right() if mended else _Failing(), inputs)[0]
