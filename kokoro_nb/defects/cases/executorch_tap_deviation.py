"""ExecuTorch's tap reports a deviation 25 times too large where the mean is large.

It is the root of |E[x²] - E[x]²| in float32: with a mean of 1000 and a deviation of 0.01 that is rounding, and abs
hides its sign.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

PACKAGES = ("executorch",)
RUNNER = ""
TOOL = "ExecuTorch's tap"
WHERE = "devtools/intermediate_output_tap/_reducers.py: STATS, std"
MENDED_BY = "the mean taken away before the tap"
LIMIT = 1e-2
ERROR = ""
VARIES = ""


def inputs() -> dict[str, Tensor]:
    """Return 4096 numbers about 1000, with a deviation of 0.01."""
    return {"x": 1000 + 0.01 * torch.randn(4096, generator=torch.Generator().manual_seed(0))}


def expected(inputs: Mapping[str, Tensor]) -> np.ndarray:
    """Return their deviation in float64."""
    return inputs["x"].double().std(correction=0).numpy()[None]


def seen(inputs: Mapping[str, Tensor], mended: bool, run: Callable[..., Any] | None) -> np.ndarray:
    """Return the one that the tap reports."""
    from executorch.devtools.intermediate_output_tap import STATS

    x = inputs["x"]
    values = STATS.eager(x - x.mean() if mended else x)
    return values[STATS.fields.index("std")].numpy()[None]
