"""The reciprocal root of 1e-12 is 29 % too small in Core ML.

It is written as MIL's rsqrt, whose epsilon of 1e-12 is left at its default: what is computed is 1 / sqrt(x + 1e-12).
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
    "coremltools/converters/mil/frontend/torch/ops.py: rsqrt, without epsilon; "
    "mil/ops/defs/iOS17/elementwise_unary.py: rsqrt"
)
MENDED_BY = "the quotient of 1 and the root, both tensors"
LIMIT = 1e-5
ERROR = ""
VARIES = ""


class _Failing(nn.Module):
    def forward(self, x: Tensor, one: Tensor) -> Tensor:
        return one * torch.rsqrt(x)


class _Right(nn.Module):
    def forward(self, x: Tensor, one: Tensor) -> Tensor:
        return one / torch.sqrt(x)


def inputs() -> dict[str, Tensor]:
    """Return 1e-12 to 1, and ones."""
    return {"x": torch.logspace(-12, 0, 13), "one": torch.ones(13)}


def expected(inputs: Mapping[str, Tensor]) -> np.ndarray:
    """Return the reciprocal roots in float64."""
    return 1 / np.sqrt(inputs["x"].double().numpy())


def seen(inputs: Mapping[str, Tensor], mended: bool, run: Callable[..., Any]) -> np.ndarray:
    """Return what the converted program computes."""
    return run(_Right() if mended else _Failing(), inputs)[0]
