"""ExecuTorch's compare_results passes over an output that is missing.

The outputs are paired by zip, which ends with the shorter list: two references and one output make one row without an
error.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

PACKAGES = ("executorch",)
RUNNER = ""
TOOL = "ExecuTorch's Inspector"
WHERE = "devtools/inspector/_inspector_utils.py: calculate_mse, calculate_snr, calculate_cosine_similarity"
MENDED_BY = "no output missing"
LIMIT = 0.0
ERROR = ""
VARIES = ""


def inputs() -> dict[str, Tensor]:
    """Return two references."""
    return {"first": torch.ones(4), "second": torch.zeros(4)}


def expected(inputs: Mapping[str, Tensor]) -> np.ndarray:
    """Return the number of outputs that have to be judged."""
    return np.array([len(inputs)])


def seen(inputs: Mapping[str, Tensor], mended: bool, run: Callable[..., Any] | None) -> np.ndarray:
    """Return the number that are, where the last output is missing, or is not."""
    from executorch.devtools.inspector import compare_results

    references = list(inputs.values())
    outputs = references if mended else references[:1]
    return np.array([len(compare_results(references, outputs, ["mse"])["mse"])])
