"""torch.onnx.verification finds 0 and 1 to be 255 apart where they are uint8.

The difference is taken in the dtype of the outputs, where it wraps around, before its absolute value.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

PACKAGES = ("torch", "onnx", "onnxscript")
RUNNER = ""
TOOL = "torch.onnx.verification"
WHERE = "torch/onnx/_internal/exporter/_verification.py: _compare_tensors"
MENDED_BY = "both cast to float before"
LIMIT = 0.0
ERROR = ""
VARIES = ""


def inputs() -> dict[str, Tensor]:
    """Return what is right and an output that is off by 1, as bytes."""
    return {"right": torch.tensor([0, 1, 2], dtype=torch.uint8), "wrong": torch.tensor([1, 1, 2], dtype=torch.uint8)}


def expected(inputs: Mapping[str, Tensor]) -> np.ndarray:
    """Return the largest difference."""
    return np.array([np.abs(inputs["right"].numpy().astype(int) - inputs["wrong"].numpy().astype(int)).max()])


def seen(inputs: Mapping[str, Tensor], mended: bool, run: Callable[..., Any] | None) -> np.ndarray:
    """Return the one that is reported."""
    from torch.onnx.verification import VerificationInfo

    right, wrong = (inputs[name].float() if mended else inputs[name] for name in ("right", "wrong"))
    return np.array([VerificationInfo.from_tensors("output", right, wrong).max_abs_diff])
