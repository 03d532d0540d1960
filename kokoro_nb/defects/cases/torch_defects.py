"""Defects of PyTorch itself, and of what ONNX files are judged by: torch.onnx.verification and onnx.reference."""

from math import inf, nan
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from kokoro_nb.defects.defect_case import Defect, WrittenZeroDefect


class InductorWrittenZero(WrittenZeroDefect):
    """AOTInductor takes x * 0 for 0, whatever x is.

    A pass over the whole graph folds a product with a 0 that is written as a number, so that NaN and infinity end
    there.

    Where: torch/_inductor/fx_passes/joint_graph.py: joint_graph_constant_folding; PyTorch 2.14.1 no longer does so
    Control: a 0 that is an input
    """

    tool = "AOTInductor"
    packages = ("torch",)
    runner = "aot_inductor"
    backends = ("aot-inductor",)


class TorchGeluInfinity(Defect):
    """PyTorch's own gelu of infinity is NaN.

    oneDNN's kernel gives it, which a contiguous tensor of more than one number takes in float32; PyTorch's own, which
    runs otherwise and where oneDNN is turned off, gives infinity.

    Where: oneDNN's gelu by erf, called by aten/src/ATen/native/Activation.cpp: gelu_out_cpu
    Control: float64
    Varies: oneDNN picks its kernels for the processor; seen with AVX-512.
    Threads: pytorch/pytorch#185770, pytorch/pytorch#192318
    """

    tool = "PyTorch"
    packages = ("torch",)
    inputs = {"x": torch.tensor([-50.0, 0.0, 50.0, inf] * 8)}
    broken = staticmethod(lambda x: F.gelu(x))
    mended = staticmethod(lambda x: F.gelu(x.double()))
    right = staticmethod(lambda x: np.maximum(x.numpy(), 0))  # the limits: 0 below, the number itself above


class TorchscriptSignedZero(Defect):
    """TorchScript merges the constants -0 and +0.

    Constants that compare equal are made one when a trace is optimised, and atan2 on the branch cut has the other sign.

    Where: torch/csrc/jit/passes/constant_pooling.cpp, by the comparison of torch/csrc/jit/ir/node_hashing.cpp
    Control: the zeros as inputs
    Threads: pytorch/pytorch#192605
    """

    tool = "TorchScript"
    packages = ("torch",)
    inputs = {"x": -torch.ones(3), "above": torch.zeros(3), "below": -torch.zeros(3)}

    def broken(self, x: Tensor, above: Tensor, below: Tensor) -> Tensor:
        def constants(x: Tensor) -> Tensor:
            return torch.cat([torch.atan2(torch.tensor(zero), x) for zero in (0.0, -0.0)])

        return torch.jit.trace(constants, (x,), check_trace=False)(x)

    def mended(self, x: Tensor, above: Tensor, below: Tensor) -> Tensor:
        return torch.jit.trace(self.right, (x, above, below), check_trace=False)(x, above, below)

    # pi by +0, -pi by -0
    right = staticmethod(lambda x, above, below: torch.cat([torch.atan2(above, x), torch.atan2(below, x)]))


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

    Where: onnx/reference/ops/op_conv_transpose.py: ConvTranspose._run, group_B
    Control: the bias added behind a convolution without one
    """

    tool = "onnx.reference"
    packages = ("onnx",)
    inputs = {"x": torch.ones(1, 6, 5), "weight": torch.ones(6, 1, 4), "bias": torch.arange(6.0)}

    def broken(self, x: Tensor, weight: Tensor, bias: Tensor, read: str = "x, weight, bias") -> np.ndarray:
        from onnx import parser
        from onnx.reference import ReferenceEvaluator

        graph = "(float[1,6,5] x, float[6,1,4] weight, float[6] bias) => (float[1,6,16] y)"
        node = f"{{ y = ConvTranspose <group=6, strides=[3]> ({read}) }}"
        model = parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> one {graph} {node}')
        given = {"x": x.numpy(), "weight": weight.numpy(), "bias": bias.numpy()}
        return np.asarray(next(iter(ReferenceEvaluator(model).run(None, given))))

    def mended(self, x: Tensor, weight: Tensor, bias: Tensor) -> np.ndarray:
        return self.broken(x, weight, bias, "x, weight") + bias.numpy()[:, None]

    right = staticmethod(lambda x, weight, bias: F.conv_transpose1d(x, weight, bias, stride=3, groups=6))


class OnnxVerificationNan(OnnxVerificationDefect):
    """torch.onnx.verification leaves NaN out of its histogram of errors.

    The differences are counted by torch.histogram, which has no bin for NaN, nor for more than 1e6: an output of NaN
    alone has no error in any bin.

    Where: torch/onnx/_internal/exporter/_verification.py: VerificationInfo.from_tensors
    Control: the differences counted by hand, NaN and the rest included
    """

    inputs = {"right": torch.zeros(8), "wrong": torch.tensor([nan, 1.0] * 4)}

    def broken(self, right: Tensor, wrong: Tensor) -> list[float]:
        return [self.compared(right, wrong).abs_diff_hist[0].sum().item()]

    def mended(self, right: Tensor, wrong: Tensor) -> list[float]:
        off, edges = (right - wrong).abs(), self.compared(right, wrong).abs_diff_hist[1]
        return [torch.histogram(off, edges).hist.sum().item() + (~(off <= 1e6)).sum().item()]

    right = staticmethod(lambda right, wrong: [right.numel()])  # elements that a histogram of the errors has to hold


class OnnxVerificationUnsigned(OnnxVerificationDefect):
    """torch.onnx.verification finds 0 and 1 to be 255 apart where they are uint8.

    The difference is taken in the dtype of the outputs, where it wraps around, before its absolute value.

    Where: torch/onnx/_internal/exporter/_verification.py: _compare_tensors
    Control: both cast to float before
    """

    inputs = {"right": torch.tensor([0, 1, 2]).byte(), "wrong": torch.tensor([1, 1, 2]).byte()}

    def broken(self, right: Tensor, wrong: Tensor) -> list[float]:
        return [self.compared(right, wrong).max_abs_diff]

    def mended(self, right: Tensor, wrong: Tensor) -> list[float]:
        return self.broken(right.float(), wrong.float())

    right = staticmethod(lambda right, wrong: [np.abs(right.numpy().astype(int) - wrong.numpy().astype(int)).max()])
