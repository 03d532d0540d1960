"""torch's ONNX exporter takes a dynamic LSTM once, and refuses it the second time in one process.

The first export leaves something behind by which the second infers a static length, and ends with an error.
"""

import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

PACKAGES = ("torch", "onnx", "onnxscript")
RUNNER = ""
TOOL = "torch.onnx"
WHERE = "torch/onnx/_internal/exporter and torch.export, on aten.lstm.input with a dynamic length"
MENDED_BY = "the TorchScript-based exporter (dynamo=False)"
LIMIT = 0.0
ERROR = ""
VARIES = ""


_CHILD = """
import io, sys, torch
class Recurrent(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = torch.nn.LSTM(4, 3, batch_first=True)
    def forward(self, x):
        return self.lstm(x)[0]
dynamic = {"dynamo": True, "dynamic_shapes": {"x": {1: torch.export.Dim.DYNAMIC}}}
if sys.argv[1] == "mended":
    dynamic = {"dynamo": False, "input_names": ["x"], "dynamic_axes": {"x": {1: "steps"}}}
done = 0
for _ in range(2):
    try:
        torch.onnx.export(Recurrent().eval(), (torch.ones(1, 5, 4),), io.BytesIO(), **dynamic)
        done += 1
    except Exception as error:
        assert "inferred a static shape of 5" in str(error), error
print(done)
"""


def inputs() -> dict[str, Tensor]:
    """Return the number of exports."""
    return {"exports": torch.tensor([2])}


def expected(inputs: Mapping[str, Tensor]) -> np.ndarray:
    """Return how many of them have to succeed: all."""
    return inputs["exports"].numpy()


def seen(inputs: Mapping[str, Tensor], mended: bool, run: Callable[..., Any] | None) -> np.ndarray:
    """Return how many do, in a process of their own."""
    command = [sys.executable, "-c", _CHILD, "mended" if mended else "as it is"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"The process ended with {done.returncode}: {done.stderr}")
    return np.array([int(done.stdout.split()[-1])])
