"""coremltools' PSNR of one array depends on its shape.

The squared error is divided by len, the size of the first axis, and not by the number of elements: 256 x 100 channels
and frames lose 44 dB.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

PACKAGES = ("coremltools",)
RUNNER = ""
TOOL = "coremltools' debugging tools"
WHERE = "coremltools/models/ml_program/experimental/debugging_utils.py: compute_snr_and_psnr"
MENDED_BY = "the arrays laid flat"
LIMIT = 1e-5
ERROR = ""
VARIES = ""


def inputs() -> dict[str, Tensor]:
    """Return a signal of shape (1, 256, 100) and one with noise of 0.01."""
    draw = torch.Generator().manual_seed(0)
    signal = torch.randn(1, 256, 100, generator=draw)
    return {"signal": signal, "noisy": signal + 0.01 * torch.randn(signal.shape, generator=draw)}


def expected(inputs: Mapping[str, Tensor]) -> np.ndarray:
    """Return the peak signal-to-noise ratio: 10 log10 of the squared peak over the mean squared error, dB."""
    signal, noisy = (inputs[name].double().numpy() for name in ("signal", "noisy"))
    return 10 * np.log10(np.square(signal).max() / np.square(noisy - signal).mean())[None]


def seen(inputs: Mapping[str, Tensor], mended: bool, run: Callable[..., Any] | None) -> np.ndarray:
    """Return the one of coremltools, dB."""
    from coremltools.models.ml_program.experimental.debugging_utils import compute_snr_and_psnr

    noisy, signal = (inputs[name].double().numpy() for name in ("noisy", "signal"))
    return np.array(
        [compute_snr_and_psnr(noisy.ravel(), signal.ravel())[1] if mended else compute_snr_and_psnr(noisy, signal)[1]]
    )
