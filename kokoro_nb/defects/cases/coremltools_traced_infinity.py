"""-inf is -3.4e38 in Core ML where the model was traced.

The frontend for traces replaces an infinity that is written in the model, so that a masked score is a number.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

PACKAGES = ("coremltools",)
RUNNER = "coremltools"
TOOL = "coremltools"
WHERE = "coremltools/converters/mil/frontend/torch/ops.py: 3.4e+38 in the place of an infinity"
MENDED_BY = "torch.export in place of the trace"
LIMIT = 0.0
ERROR = ""
VARIES = ""


class _Masked(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.where(x > 0, torch.full((4,), float("-inf")), x)


def inputs() -> dict[str, Tensor]:
    """Return four numbers, two of them positive."""
    return {"x": torch.tensor([-1.0, 0.0, 1.0, 2.0])}


def expected(inputs: Mapping[str, Tensor]) -> np.ndarray:
    """Return PyTorch's result."""
    return _Masked()(inputs["x"]).numpy()


def seen(inputs: Mapping[str, Tensor], mended: bool, run: Callable[..., Any]) -> np.ndarray:
    """Return what the converted program computes."""
    return run(_Masked(), inputs, traced=not mended)[0]
