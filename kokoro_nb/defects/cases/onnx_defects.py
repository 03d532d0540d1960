"""Defects of torch.onnx: what its exporters write."""

import io
from math import nan
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kokoro_nb.defects.defect_case import Defect, FloorDivisionDefect


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
