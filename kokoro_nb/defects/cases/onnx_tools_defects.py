"""Defects of what ONNX files are judged by: torch.onnx.verification, and onnx's reference implementation."""

from collections.abc import Sequence
from math import nan
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from kokoro_nb.defects.defect_case import Defect


class OnnxVerificationDefect(Defect):
    """What torch.onnx.verification says of two tensors."""

    tool = "torch.onnx.verification"
    packages = ("torch", "onnx", "onnxscript")

    def compared(self, right: Tensor, wrong: Tensor) -> Any:
        from torch.onnx.verification import VerificationInfo

        return VerificationInfo.from_tensors("output", right, wrong)


class OnnxReferenceConvTranspose(Defect):
    """onnx's reference implementation gives every group of a transposed convolution the bias of channel 0.

    Each group is run by itself with the whole bias, of which its first channel is read.
    """

    tool = "onnx.reference"
    packages = ("onnx",)
    where = "onnx/reference/ops/op_conv_transpose.py: ConvTranspose._run, group_B"
    mended_by = "each group run as a convolution of one"
    limit = 1e-5
    draw = torch.Generator().manual_seed(0)
    inputs = {
        "x": torch.randn(1, 6, 5, generator=draw),
        "weight": torch.randn(6, 1, 4, generator=draw),
        "bias": torch.randn(6, generator=draw),
    }

    def broken(self, x: Tensor, weight: Tensor, bias: Tensor) -> np.ndarray:
        return self.evaluated([x.numpy(), weight.numpy(), bias.numpy()], 6)

    def mended(self, x: Tensor, weight: Tensor, bias: Tensor) -> np.ndarray:
        groups = [[x[:, [i]].numpy(), weight[[i]].numpy(), bias[[i]].numpy()] for i in range(6)]
        return np.concatenate([self.evaluated(group, 1) for group in groups], axis=1)

    def evaluated(self, arrays: Sequence[np.ndarray], groups: int) -> np.ndarray:
        from onnx import TensorProto, helper
        from onnx.reference import ReferenceEvaluator

        given = dict(zip(("x", "weight", "bias"), arrays, strict=True))
        node = helper.make_node("ConvTranspose", list(given), ["y"], group=groups, strides=[3])
        takes = [helper.make_tensor_value_info(name, TensorProto.FLOAT, array.shape) for name, array in given.items()]
        gives = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 6, 16])]
        model = helper.make_model(helper.make_graph([node], "graph", takes, gives))
        return np.asarray(next(iter(ReferenceEvaluator(model).run(None, given))))

    def right(self, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return F.conv_transpose1d(x, weight, bias, stride=3, groups=6)


class OnnxVerificationNan(OnnxVerificationDefect):
    """torch.onnx.verification leaves NaN out of its histogram of errors.

    The differences are counted by torch.histogram, which has no bin for NaN, nor for more than 1e6: an output of NaN
    alone has no error in any bin.
    """

    where = "torch/onnx/_internal/exporter/_verification.py: VerificationInfo.from_tensors"
    mended_by = "the differences counted by hand, NaN and the rest included"
    inputs = {"right": torch.zeros(8), "wrong": torch.tensor([nan, 1.0] * 4)}

    def broken(self, right: Tensor, wrong: Tensor) -> list[float]:
        return [self.compared(right, wrong).abs_diff_hist[0].sum().item()]

    def mended(self, right: Tensor, wrong: Tensor) -> list[float]:
        off, edges = (right - wrong).abs(), self.compared(right, wrong).abs_diff_hist[1]
        return [torch.histogram(off, edges).hist.sum().item() + (~(off <= 1e6)).sum().item()]

    def right(self, right: Tensor, wrong: Tensor) -> list[int]:
        return [right.numel()]  # elements that a histogram of the errors has to hold


class OnnxVerificationUnsigned(OnnxVerificationDefect):
    """torch.onnx.verification finds 0 and 1 to be 255 apart where they are uint8.

    The difference is taken in the dtype of the outputs, where it wraps around, before its absolute value.
    """

    where = "torch/onnx/_internal/exporter/_verification.py: _compare_tensors"
    mended_by = "both cast to float before"
    inputs = {
        "right": torch.tensor([0, 1, 2], dtype=torch.uint8),
        "wrong": torch.tensor([1, 1, 2], dtype=torch.uint8),
    }

    def broken(self, right: Tensor, wrong: Tensor) -> list[float]:
        return [self.compared(right, wrong).max_abs_diff]

    def mended(self, right: Tensor, wrong: Tensor) -> list[float]:
        return self.broken(right.float(), wrong.float())

    def right(self, right: Tensor, wrong: Tensor) -> list[int]:
        return [np.abs(right.numpy().astype(int) - wrong.numpy().astype(int)).max()]
