"""PyTorch's own gelu of infinity is NaN.

The vectorised kernel gives it; a tensor too short for a vector, and float64, give infinity.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

PACKAGES = ("torch",)
RUNNER = ""
TOOL = "PyTorch"
WHERE = "aten/src/ATen/native/cpu/Activation.cpp: GeluKernelImpl"
MENDED_BY = "float64"
LIMIT = 0.0
ERROR = ""
VARIES = "PyTorch picks its kernels for the processor; seen with AVX-512."


def inputs() -> dict[str, Tensor]:
    """Return 32 numbers, every fourth of them infinite."""
    return {"x": torch.tensor([-50.0, 0.0, 50.0, float("inf")] * 8)}


def expected(inputs: Mapping[str, Tensor]) -> np.ndarray:
    """Return the limits: 0 below, the number itself above."""
    return np.maximum(inputs["x"].numpy(), 0)


def seen(inputs: Mapping[str, Tensor], mended: bool, run: Callable[..., Any] | None) -> np.ndarray:
    """Return PyTorch's result."""
    x = inputs["x"]
    return F.gelu(x.double() if mended else x).numpy()
