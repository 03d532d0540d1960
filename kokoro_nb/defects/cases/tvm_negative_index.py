"""TVM reads before the tensor where an index counts from the end.

The importer hands the indices to take as they are, and what stands before the tensor in memory is read.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

PACKAGES = ("apache-tvm",)
RUNNER = "tvm"
TOOL = "TVM"
WHERE = "tvm/relax/frontend/torch/base_fx_graph_translator.py: _index_tensor, relax.op.take"
MENDED_BY = "the size added to what is negative"
LIMIT = 0.0
ERROR = ""
VARIES = ""


class _Failing(nn.Module):
    def forward(self, x: Tensor, i: Tensor) -> Tensor:
        return x[i]


class _Right(nn.Module):
    def forward(self, x: Tensor, i: Tensor) -> Tensor:
        return x[torch.where(i < 0, i + x.shape[0], i)]


def inputs() -> dict[str, Tensor]:
    """Return five numbers, and three indices, of which two count from the end."""
    return {"x": torch.arange(5.0) + 1, "i": torch.tensor([-1, 0, -2])}


def expected(inputs: Mapping[str, Tensor]) -> np.ndarray:
    """Return what NumPy reads."""
    return inputs["x"].numpy()[inputs["i"].numpy()]


def seen(inputs: Mapping[str, Tensor], mended: bool, run: Callable[..., Any]) -> np.ndarray:
    """Return what TVM computes."""
    return run(_Right() if mended else _Failing(), inputs)[0]
