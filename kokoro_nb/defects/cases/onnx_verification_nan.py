"""torch.onnx.verification leaves NaN out of its histogram of errors.

The differences are counted by torch.histogram, which has no bin for NaN, nor for more than 1e6: an output of NaN
alone has no error in any bin.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

PACKAGES = ("torch", "onnx", "onnxscript")
RUNNER = ""
TOOL = "torch.onnx.verification"
WHERE = "torch/onnx/_internal/exporter/_verification.py: VerificationInfo.from_tensors"
MENDED_BY = "the differences counted by hand, NaN and the rest included"
LIMIT = 0.0
ERROR = ""
VARIES = ""


def inputs() -> dict[str, Tensor]:
    """Return what is right, and a wrong output: half of it NaN, the rest off by 1."""
    return {"right": torch.zeros(8), "wrong": torch.tensor([float("nan"), 1.0] * 4)}


def expected(inputs: Mapping[str, Tensor]) -> np.ndarray:
    """Return the number of elements that a histogram of the errors has to hold: all."""
    return np.array([inputs["right"].numel()])


def seen(inputs: Mapping[str, Tensor], mended: bool, run: Callable[..., Any] | None) -> np.ndarray:
    """Return the number that it holds."""
    from torch.onnx.verification import VerificationInfo

    right, wrong = inputs["right"], inputs["wrong"]
    info = VerificationInfo.from_tensors("output", right, wrong)
    counted = info.abs_diff_hist[0].sum().item()
    if mended:
        off = (right - wrong).abs()
        counted = torch.histogram(off, info.abs_diff_hist[1]).hist.sum().item() + (~(off <= 1e6)).sum().item()
    return np.array([counted])
