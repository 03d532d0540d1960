"""atan2 of NaN is 0 in ONNX.

The last step puts 0 in the place of NaN, to mend 0 / 0: so do a NaN argument and two infinite ones come out as 0.
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
MENDED_BY = "NaN put back from the arguments"
LIMIT = 1e-5
ERROR = ""
VARIES = ""


class _Failing(nn.Module):
    def forward(self, y: Tensor, x: Tensor) -> Tensor:
        return torch.atan2(y, x)


class _Right(nn.Module):
    def forward(self, y: Tensor, x: Tensor) -> Tensor:
        return torch.where(torch.isnan(x + y), x + y, torch.atan2(y, x))


def inputs() -> dict[str, Tensor]:
    """Return four pairs, in three of which is a NaN."""
    unknown = float("nan")
    return {"y": torch.tensor([1.0, unknown, 2.0, unknown]), "x": torch.tensor([1.0, 1.0, unknown, unknown])}


def expected(inputs: Mapping[str, Tensor]) -> np.ndarray:
    """Return what NumPy computes in float64."""
    return np.arctan2(inputs["y"].double().numpy(), inputs["x"].double().numpy())


def seen(inputs: Mapping[str, Tensor], mended: bool, run: Callable[..., Any]) -> np.ndarray:
    """Return what ONNX Runtime computes."""
    return run(_Right() if mended else _Failing(), inputs)[0]
