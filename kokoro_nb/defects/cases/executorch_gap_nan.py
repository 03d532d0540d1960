"""ExecuTorch's numeric gap scores an output of NaN as 0 dB.

The comparators behind Inspector.calculate_numeric_gap put 0 in the place of NaN on both sides, so that the error is
the signal.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

PACKAGES = ("executorch",)
RUNNER = ""
TOOL = "ExecuTorch's Inspector"
WHERE = "devtools/inspector/_inspector_utils.py: convert_to_float_tensor, torch.nan_to_num"
MENDED_BY = "a comparator of one's own that leaves NaN alone"
LIMIT = 0.0
ERROR = ""
VARIES = ""


def inputs() -> dict[str, Tensor]:
    """Return a reference and an output of NaN alone."""
    return {"reference": torch.linspace(-1, 1, 100), "output": torch.full((100,), float("nan"))}


def expected(inputs: Mapping[str, Tensor]) -> np.ndarray:
    """Return NaN, which is what the signal-to-noise ratio of NaN is."""
    return np.array([float("nan")])


def seen(inputs: Mapping[str, Tensor], mended: bool, run: Callable[..., Any] | None) -> np.ndarray:
    """Return the one that ExecuTorch reports, in dB."""
    from executorch.devtools.inspector.numerical_comparator import NumericalComparatorBase, SNRComparator

    class Honest(NumericalComparatorBase):
        def element_compare(self, a: Any, b: Any) -> float:
            return float(10 * torch.log10(a.square().mean() / (a - b).square().mean()))

    comparator = Honest() if mended else SNRComparator()
    table = comparator.compare({((1,), inputs["reference"]): ((1,), inputs["output"])}, {}, {})
    return np.array(table["gap"][0])
