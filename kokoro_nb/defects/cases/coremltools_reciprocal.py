"""1 / x is 1 / (x + 0.0001) in Core ML.

It is written as MIL's inverse, whose epsilon is left at its default.
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
    "coremltools/converters/mil/frontend/torch/ops.py: reciprocal, without epsilon; "
    "mil/ops/defs/iOS17/elementwise_unary.py: inverse"
)
MENDED_BY = "the quotient of two tensors (the patch divided_snake)"
LIMIT = 1e-5
ERROR = ""
VARIES = ""


class _Failing(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x * (1 / y)


class _Right(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x / y


def inputs() -> dict[str, Tensor]:
    """Return 16 numbers from -1 to 1, and 0.01."""
    return {"x": torch.linspace(-1, 1, 16), "y": torch.full((16,), 0.01)}


def expected(inputs: Mapping[str, Tensor]) -> np.ndarray:
    """Return the quotients in float64."""
    return (inputs["x"].double() / inputs["y"].double()).numpy()


def seen(inputs: Mapping[str, Tensor], mended: bool, run: Callable[..., Any]) -> np.ndarray:
    """Return what the converted program computes."""
    return run(_Right() if mended else _Failing(), inputs)[0]
