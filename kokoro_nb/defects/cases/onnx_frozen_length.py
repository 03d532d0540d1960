"""torch's ONNX exporter declares the output of an LSTM with the example's length, though the input's is dynamic.

torch.export computes the shape of an LSTM's output from the example, and the exporter writes it into the file beside
an input of any length.
"""

import io
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

PACKAGES = ("torch", "onnx", "onnxscript", "onnxruntime")
RUNNER = ""
TOOL = "torch.onnx"
WHERE = "torch/onnx/_internal/exporter and torch.export, on aten.lstm.input with a dynamic length"
MENDED_BY = "the TorchScript-based exporter (dynamo=False)"
LIMIT = 0.0
ERROR = ""
VARIES = ""


class _Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(4, 3, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.lstm(x)[0]


def inputs() -> dict[str, Tensor]:
    """Return an example of 5 steps and another of 8."""
    return {"example": torch.ones(1, 5, 4), "x": torch.ones(1, 8, 4)}


def expected(inputs: Mapping[str, Tensor]) -> np.ndarray:
    """Return the length of what goes in: 8."""
    return np.array([inputs["x"].shape[1]])


def seen(inputs: Mapping[str, Tensor], mended: bool, run: Callable[..., Any] | None) -> np.ndarray:
    """Return the length that the file declares for its output, or where it declares none the one that comes out."""
    import onnxruntime

    module, example, buffer = _Recurrent().eval(), (inputs["example"],), io.BytesIO()
    dynamic: dict[str, Any] = {"dynamo": True, "dynamic_shapes": {"x": {1: torch.export.Dim.AUTO}}}
    if mended:
        axes = {"x": {1: "steps"}, "y": {1: "steps"}}
        dynamic = {"dynamo": False, "output_names": ["y"], "dynamic_axes": axes}
    torch.onnx.export(module, example, buffer, input_names=["x"], **dynamic)  # type: ignore[arg-type]
    session = onnxruntime.InferenceSession(buffer.getvalue(), providers=["CPUExecutionProvider"])
    declared = session.get_outputs()[0].shape[1]
    output = session.run(None, {"x": inputs["x"].numpy()})[0]
    return np.array([declared if isinstance(declared, int) else output.shape[1]])
