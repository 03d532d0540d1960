"""The logarithm of the sigmoid of -200 is -inf in ONNX.

It is written as Log of Sigmoid, and the sigmoid of -104 is 0 in float32 already.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

PACKAGES = ("torch", "onnx", "onnxscript", "onnxruntime")
RUNNER = "onnxruntime"
TOOL = "torch.onnx"
WHERE = "onnxscript/function_libs/torch_lib/ops/nn.py: aten_log_sigmoid"
MENDED_BY = "the negative softplus of the opposite"
LIMIT = 1e-6
ERROR = ""
VARIES = ""


class _Failing(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.logsigmoid(x)


class _Right(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return -F.softplus(-x)


def inputs() -> dict[str, Tensor]:
    """Return five numbers from -200 to 20."""
    return {"x": torch.tensor([-200.0, -100.0, -20.0, 0.0, 20.0])}


def expected(inputs: Mapping[str, Tensor]) -> np.ndarray:
    """Return PyTorch's result in float64."""
    return _Failing()(inputs["x"].double()).numpy()


def seen(inputs: Mapping[str, Tensor], mended: bool, run: Callable[..., Any]) -> np.ndarray:
    """Return what ONNX Runtime computes."""
    return run(_Right() if mended else _Failing(), inputs)[0]
