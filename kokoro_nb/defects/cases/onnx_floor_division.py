"""1 divided by 0.1, rounded down, is 10 in ONNX and 9 in PyTorch.

It is written as the floor of the rounded quotient, where PyTorch takes the remainder away first: float32's 0.1 is
above 1 / 10.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

PACKAGES = ("torch", "onnx", "onnxscript", "onnxruntime")
RUNNER = "onnxruntime"
TOOL = "torch.onnx"
WHERE = "onnxscript/function_libs/torch_lib/ops/core.py: aten_div_mode"
MENDED_BY = "the remainder taken away first"
LIMIT = 0.0
ERROR = ""
VARIES = ""


class _Failing(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.div(x, y, rounding_mode="floor")


class _Right(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.round((x - torch.fmod(x, y)) / y)


def inputs() -> dict[str, Tensor]:
    """Return four numbers and 0.1, four times."""
    return {"x": torch.tensor([1.0, 2.5, 3.5, 0.95]), "y": torch.full((4,), 0.1)}


def expected(inputs: Mapping[str, Tensor]) -> np.ndarray:
    """Return the floor of the exact quotient: float64 holds it far enough."""
    return torch.floor(inputs["x"].double() / inputs["y"].double()).numpy()


def seen(inputs: Mapping[str, Tensor], mended: bool, run: Callable[..., Any]) -> np.ndarray:
    """Return what ONNX Runtime computes."""
    return run(_Right() if mended else _Failing(), inputs)[0]
