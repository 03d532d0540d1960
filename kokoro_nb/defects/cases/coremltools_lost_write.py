"""x[:, i] = y is lost in Core ML where the model was traced.

The write goes through a view of the whole, x[:], which the converter takes for a new tensor: the old one is returned.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

PACKAGES = ("coremltools",)
RUNNER = "coremltools"
TOOL = "coremltools"
WHERE = "coremltools/converters/mil/frontend/torch/ops.py: index_put, of a slice of the whole"
MENDED_BY = "scatter, which returns a new tensor"
LIMIT = 0.0
ERROR = ""
VARIES = ""


class _Failing(nn.Module):
    def forward(self, x: Tensor, i: Tensor, y: Tensor) -> Tensor:
        written = x.clone()
        written[:, i[0]] = y
        return written


class _Right(nn.Module):
    def forward(self, x: Tensor, i: Tensor, y: Tensor) -> Tensor:
        return x.scatter(1, i, y)


def inputs() -> dict[str, Tensor]:
    """Return eight zeros, three indices and three ones."""
    return {"x": torch.zeros(1, 8), "i": torch.tensor([[0, 3, 5]]), "y": torch.ones(1, 3)}


def expected(inputs: Mapping[str, Tensor]) -> np.ndarray:
    """Return ones at the three indices."""
    return np.array([[1, 0, 0, 1, 0, 1, 0, 0]])


def seen(inputs: Mapping[str, Tensor], mended: bool, run: Callable[..., Any]) -> np.ndarray:
    """Return what the converted program computes."""
    return run(_Right() if mended else _Failing(), inputs, traced=True)[0]
