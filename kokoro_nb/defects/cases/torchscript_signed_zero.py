"""TorchScript merges the constants -0 and +0.

Constants that compare equal are made one when a trace is optimised, and atan2 on the branch cut has the other sign.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

PACKAGES = ("torch",)
RUNNER = ""
TOOL = "TorchScript"
WHERE = "torch/csrc/jit/passes/constant_pooling.cpp"
MENDED_BY = "the zeros as inputs"
LIMIT = 1e-6
ERROR = ""
VARIES = ""


class _Constants(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([torch.atan2(torch.tensor(zero), x) for zero in (0.0, -0.0)])


class _Inputs(nn.Module):
    def forward(self, x: Tensor, above: Tensor, below: Tensor) -> Tensor:
        return torch.cat([torch.atan2(above, x), torch.atan2(below, x)])


def inputs() -> dict[str, Tensor]:
    """Return -1, and zeros of either sign."""
    return {"x": -torch.ones(3), "above": torch.zeros(3), "below": -torch.zeros(3)}


def expected(inputs: Mapping[str, Tensor]) -> np.ndarray:
    """Return PyTorch's result: pi by +0, -pi by -0."""
    return _Constants()(inputs["x"]).numpy()


def seen(inputs: Mapping[str, Tensor], mended: bool, run: Callable[..., Any] | None) -> np.ndarray:
    """Return that of a trace."""
    module, given = (_Inputs(), tuple(inputs.values())) if mended else (_Constants(), (inputs["x"],))
    ordered = tuple(inputs[name] for name in ("x", "above", "below")[: len(given)])
    return torch.jit.trace(module, ordered, check_trace=False)(*ordered).numpy()
