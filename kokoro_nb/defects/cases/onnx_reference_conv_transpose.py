"""onnx's reference implementation gives every group of a transposed convolution the bias of channel 0.

Each group is run by itself with the whole bias, of which its first channel is read.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

PACKAGES = ("onnx",)
RUNNER = ""
TOOL = "onnx.reference"
WHERE = "onnx/reference/ops/op_conv_transpose.py: ConvTranspose._run, group_B"
MENDED_BY = "each group run as a convolution of one"
LIMIT = 1e-5
ERROR = ""
VARIES = ""


def inputs() -> dict[str, Tensor]:
    """Return six channels, each a group, with weight and bias."""
    draw = torch.Generator().manual_seed(0)
    shapes = {"x": (1, 6, 5), "weight": (6, 1, 4), "bias": (6,)}
    return {name: torch.randn(shape, generator=draw) for name, shape in shapes.items()}


def expected(inputs: Mapping[str, Tensor]) -> np.ndarray:
    """Return PyTorch's result in float64."""
    x, weight, bias = (inputs[name].double() for name in ("x", "weight", "bias"))
    return F.conv_transpose1d(x, weight, bias, stride=3, groups=6).numpy()


def seen(inputs: Mapping[str, Tensor], mended: bool, run: Callable[..., Any] | None) -> np.ndarray:
    """Return that of the reference implementation."""
    whole = {name: tensor.numpy() for name, tensor in inputs.items()}
    if not mended:
        return _evaluated(whole, 6)
    groups = ({"x": whole["x"][:, [i]], "weight": whole["weight"][[i]], "bias": whole["bias"][[i]]} for i in range(6))
    return np.concatenate([_evaluated(group, 1) for group in groups], axis=1)


def _evaluated(arrays: dict[str, np.ndarray], groups: int) -> np.ndarray:
    from onnx import TensorProto, helper
    from onnx.reference import ReferenceEvaluator

    node = helper.make_node("ConvTranspose", list(arrays), ["y"], group=groups, strides=[3])
    given = [helper.make_tensor_value_info(name, TensorProto.FLOAT, array.shape) for name, array in arrays.items()]
    made = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 6, 16])]
    model = helper.make_model(helper.make_graph([node], "graph", given, made))
    return np.asarray(next(iter(ReferenceEvaluator(model).run(None, arrays))))
