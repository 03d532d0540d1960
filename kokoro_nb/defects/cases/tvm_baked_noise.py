"""TVM's importer draws random numbers once, when it imports.

randn becomes a constant of the compiled program: every call has the same noise, without a word.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

PACKAGES = ("apache-tvm",)
RUNNER = "tvm"
TOOL = "TVM"
WHERE = "tvm/relax/frontend/torch/exported_program_translator.py: _randn, np.random.randn"
MENDED_BY = "the noise as an input (the patch explicit_noise)"
LIMIT = 0.0
ERROR = ""
VARIES = ""


class _Drawing(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + torch.randn(16)


class _Given(nn.Module):
    def forward(self, x: Tensor, noise: Tensor) -> Tensor:
        return x + noise


def inputs() -> dict[str, Tensor]:
    """Return zeros, and two draws of noise for the form that takes it."""
    draw = torch.Generator().manual_seed(0)
    return {"x": torch.zeros(16), "first": torch.randn(16, generator=draw), "second": torch.randn(16, generator=draw)}


def expected(inputs: Mapping[str, Tensor]) -> np.ndarray:
    """Return the share of the 16 numbers that two calls have in common: none."""
    return np.zeros(1)


def seen(inputs: Mapping[str, Tensor], mended: bool, run: Callable[..., Any]) -> np.ndarray:
    """Return the share that two calls of one compiled program have in common."""
    x = inputs["x"]
    given = [{"x": x, "noise": inputs[name]} for name in ("first", "second")]
    first, second = run(_Given(), *given) if mended else run(_Drawing(), {"x": x}, {"x": x})
    return np.mean(first == second, keepdims=True)
