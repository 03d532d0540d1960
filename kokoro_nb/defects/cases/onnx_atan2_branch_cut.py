"""atan2 of +0 and a negative number is -pi in ONNX.

It is written as atan(y / x), from which pi is taken where y is not above 0: on the branch cut that is -pi and not
+pi.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

PACKAGES = ("torch", "onnx", "onnxscript", "onnxruntime")
RUNNER = "onnxruntime"
TOOL = "torch.onnx"
WHERE = "onnxscript/function_libs/torch_lib/ops/core.py: _atan2"
MENDED_BY = "pi put in where y is 0 and x below it (the patch where_phase)"
LIMIT = 1e-5
ERROR = ""
VARIES = ""


class _Failing(nn.Module):
    def forward(self, y: Tensor, x: Tensor) -> Tensor:
        return torch.atan2(y, x)


class _Right(nn.Module):
    def forward(self, y: Tensor, x: Tensor) -> Tensor:
        return torch.where((y == 0) & (x < 0), torch.pi, torch.atan2(y, x))


def inputs() -> dict[str, Tensor]:
    """Return y of +0 and x from -1 to -8."""
    return {"y": torch.zeros(8), "x": -torch.arange(1.0, 9.0)}


def expected(inputs: Mapping[str, Tensor]) -> np.ndarray:
    """Return what NumPy computes in float64."""
    return np.arctan2(inputs["y"].double().numpy(), inputs["x"].double().numpy())


def seen(inputs: Mapping[str, Tensor], mended: bool, run: Callable[..., Any]) -> np.ndarray:
    """Return what ONNX Runtime computes."""
    return run(_Right() if mended else _Failing(), inputs)[0]
