"""ExecuTorch's compare_results says that the mean squared error of an output 5 % off is 0.

Every metric is rounded to two digits behind the point, whatever the scale of the signal.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

PACKAGES = ("executorch",)
RUNNER = ""
TOOL = "ExecuTorch's Inspector"
WHERE = "devtools/inspector/_inspector_utils.py: calculate_mse, round(..., 2)"
MENDED_BY = "MSEComparator, which does not round"
LIMIT = 1e-5
ERROR = ""
VARIES = ""


def inputs() -> dict[str, Tensor]:
    """Return a reference and an output that is off by 0.05."""
    reference = torch.linspace(-1, 1, 100)
    return {"reference": reference, "output": reference + 0.05}


def expected(inputs: Mapping[str, Tensor]) -> np.ndarray:
    """Return the mean squared error in float64."""
    return np.square(inputs["reference"].double() - inputs["output"].double()).mean().numpy()[None]


def seen(inputs: Mapping[str, Tensor], mended: bool, run: Callable[..., Any] | None) -> np.ndarray:
    """Return the one that ExecuTorch reports."""
    from executorch.devtools.inspector import compare_results
    from executorch.devtools.inspector.numerical_comparator import MSEComparator

    pair = inputs["reference"], inputs["output"]
    if mended:
        return np.array([MSEComparator().element_compare(*pair)])
    return np.array(compare_results([pair[0]], [pair[1]], ["mse"])["mse"])
