"""torch's older ONNX exporter merges a weight of -0 with one of +0.

Weights that compare equal are made one initialiser, and -0 compares equal to +0: a quotient by it has the other sign.
"""

import io
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

PACKAGES = ("torch", "onnx", "onnxruntime")
RUNNER = ""
TOOL = "torch.onnx"
WHERE = "torch/csrc/jit/passes/onnx/deduplicate_initializers.cpp, in torch.onnx.export(dynamo=False)"
MENDED_BY = "keep_initializers_as_inputs=True, under which nothing is merged"
LIMIT = 0.0
ERROR = ""
VARIES = ""


class _Quotients(nn.Module):
    def __init__(self, weights: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.above, self.below = nn.Parameter(weights["above"]), nn.Parameter(weights["below"])

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x / self.above, x / self.below])


def inputs() -> dict[str, Tensor]:
    """Return ones, and the weights: zeros of either sign."""
    return {"x": torch.ones(3), "above": torch.zeros(3), "below": -torch.zeros(3)}


def expected(inputs: Mapping[str, Tensor]) -> np.ndarray:
    """Return PyTorch's result: inf by +0, -inf by -0."""
    with torch.no_grad():
        return _Quotients(inputs)(inputs["x"]).numpy()


def seen(inputs: Mapping[str, Tensor], mended: bool, run: Callable[..., Any] | None) -> np.ndarray:
    """Return ONNX Runtime's."""
    import onnxruntime

    module, buffer = _Quotients(inputs).eval(), io.BytesIO()
    kept: dict[str, Any] = {"dynamo": False, "input_names": ["x"], "keep_initializers_as_inputs": mended}
    torch.onnx.export(module, (inputs["x"],), buffer, **kept)  # type: ignore[arg-type]
    session = onnxruntime.InferenceSession(buffer.getvalue(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": inputs["x"].numpy()})[0]
