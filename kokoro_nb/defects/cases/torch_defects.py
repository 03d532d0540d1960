"""Defects of PyTorch itself, of what torch.onnx writes, and of what ONNX files are judged by."""

import io
from math import inf, nan
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kokoro_nb.defects.defect_case import Defect, FloorDivisionDefect, WrittenZeroDefect


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


class OnnxExportDefect(Defect):
    """What ONNX Runtime computes of what torch.onnx writes."""

    tool = "torch.onnx"
    packages: tuple[str, ...] = ("torch", "onnx", "onnxscript", "onnxruntime")
    runner = "onnxruntime"
    backends: tuple[str, ...] = ("onnxruntime",)


class Atan2Defect(OnnxExportDefect):
    """What is written for atan2."""

    operators = ("atan2",)
    broken = staticmethod(lambda y, x: torch.atan2(y, x))


class OnnxAtan2BranchCut(Atan2Defect):
    """atan2 of +0 and a negative number is -pi in ONNX.

    It is written as atan(y / x), from which pi is taken where y is not above 0: on the branch cut that is -pi and not
    +pi.

    Where: onnxscript/function_libs/torch_lib/ops/core.py: _atan2
    Control: pi put in where y is 0 and x below it (the patch where_phase)
    """

    mechanism = "branch cut of atan2"
    inputs = {"y": torch.zeros(8), "x": -torch.arange(1.0, 9.0)}
    mended = staticmethod(lambda y, x: torch.where((y == 0) & (x < 0), torch.pi, torch.atan2(y, x)))


class OnnxAtan2Nan(Atan2Defect):
    """atan2 of NaN is 0 in ONNX.

    The last step puts 0 in the place of NaN, to mend 0 / 0: so do a NaN argument and two infinite ones come out as 0.

    Where: onnxscript/function_libs/torch_lib/ops/core.py: _atan2, IsNaN
    Control: NaN put back from the arguments
    Threads: microsoft/onnxscript#2557
    """

    mechanism = "operator lowered as another"
    inputs = {"y": torch.tensor([1.0, nan, 2.0, nan]), "x": torch.tensor([1.0, 1.0, nan, nan])}
    mended = staticmethod(lambda y, x: torch.where(torch.isnan(x + y), x + y, torch.atan2(y, x)))


class OnnxFloorDivision(FloorDivisionDefect, OnnxExportDefect):
    """1 divided by 0.1, rounded down, is 10 in ONNX and 9 in PyTorch.

    It is written as the floor of the rounded quotient, where PyTorch takes the remainder away first: float32's 0.1 is
    above 1 / 10.

    Where: onnxscript/function_libs/torch_lib/ops/core.py: aten_div_mode, aten_floor_divide
    Control: the remainder taken away first
    Threads: microsoft/onnxscript#989
    """


class OnnxFrozenLength(Defect):
    """torch's ONNX exporter declares the output of an LSTM with the example's length, though the input's is dynamic.

    torch.export computes the shape of an LSTM's output from the example, and the exporter writes it into the file
    beside an input of any length.

    Where: torch/onnx/_internal/exporter and torch.export, on aten.lstm.input with a dynamic length
    Control: the TorchScript-based exporter (dynamo=False)
    """

    tool = "torch.onnx"
    packages = ("torch", "onnx", "onnxscript")
    inputs = {"x": torch.ones(1, 5, 4)}

    def broken(self, x: Tensor, **options: Any) -> list[bool]:
        # whether the length that the file declares for its output is the example's
        import onnx

        options = options or {"dynamo": True, "dynamic_shapes": ({1: torch.export.Dim.AUTO},)}
        buffer = io.BytesIO()
        torch.onnx.export(nn.LSTM(4, 3, batch_first=True).eval(), (x,), buffer, **options)  # type: ignore[arg-type]
        declared = onnx.load_from_string(buffer.getvalue()).graph.output[0].type.tensor_type.shape
        return [declared.dim[1].dim_value == x.shape[1]]

    def mended(self, x: Tensor) -> list[bool]:
        axes = {name: {1: "steps"} for name in ("x", "y")}
        return self.broken(x, dynamo=False, input_names=["x"], output_names=["y"], dynamic_axes=axes)

    right = staticmethod(lambda x: [False])


class OnnxLogSigmoid(OnnxExportDefect):
    """The logarithm of the sigmoid of -200 is -inf in ONNX.

    It is written as Log of Sigmoid, and the sigmoid of -104 is 0 in float32 already.

    Where: onnxscript/function_libs/torch_lib/ops/nn.py: aten_log_sigmoid
    Control: the negative softplus of the opposite
    """

    operators = ("log_sigmoid",)
    inputs = {"x": torch.tensor([-200.0, -100.0, -20.0, 0.0, 20.0])}
    broken = staticmethod(lambda x: F.logsigmoid(x))
    mended = staticmethod(lambda x: -F.softplus(-x))
