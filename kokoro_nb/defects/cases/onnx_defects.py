"""Defects of torch.onnx: what its exporters write."""

import io
from math import nan
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kokoro_nb.defects.defect_case import Defect, ProcessDefect


class OnnxWriterDefect(Defect):
    """What torch.onnx writes."""

    tool = "torch.onnx"
    packages: tuple[str, ...] = ("torch", "onnx", "onnxscript", "onnxruntime")

    def session(self, module: nn.Module, example: Tensor, **options: Any) -> Any:
        import onnxruntime

        buffer = io.BytesIO()
        torch.onnx.export(module.eval(), (example,), buffer, input_names=["x"], **options)  # type: ignore[arg-type]
        return onnxruntime.InferenceSession(buffer.getvalue(), providers=["CPUExecutionProvider"])


class OnnxExportDefect(OnnxWriterDefect):
    """What ONNX Runtime computes of what torch.onnx writes."""

    runner = "onnxruntime"
    backends: tuple[str, ...] = ("onnxruntime",)
    limit = 1e-5


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


class OnnxFloorDivision(OnnxExportDefect):
    """1 divided by 0.1, rounded down, is 10 in ONNX and 9 in PyTorch.

    It is written as the floor of the rounded quotient, where PyTorch takes the remainder away first: float32's 0.1 is
    above 1 / 10.

    Where: onnxscript/function_libs/torch_lib/ops/core.py: aten_div_mode, aten_floor_divide
    Control: the remainder taken away first
    Threads: microsoft/onnxscript#989
    """

    operators = ("div", "floor_divide")
    limit = 0.0
    inputs = {"x": torch.tensor([1.0, 2.5, 3.5, 0.95]), "y": torch.full((4,), 0.1)}
    concerns = staticmethod(lambda arguments: arguments.get("rounding_mode", "floor") == "floor")
    broken = staticmethod(lambda x, y: torch.div(x, y, rounding_mode="floor"))
    mended = staticmethod(lambda x, y: torch.round((x - torch.fmod(x, y)) / y))


class OnnxFrozenLength(OnnxWriterDefect):
    """torch's ONNX exporter declares the output of an LSTM with the example's length, though the input's is dynamic.

    torch.export computes the shape of an LSTM's output from the example, and the exporter writes it into the file
    beside an input of any length.

    Where: torch/onnx/_internal/exporter and torch.export, on aten.lstm.input with a dynamic length
    Control: the TorchScript-based exporter (dynamo=False)
    """

    inputs = {"example": torch.ones(1, 5, 4), "x": torch.ones(1, 8, 4)}

    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(4, 3, batch_first=True)

        def forward(self, x: Tensor) -> Tensor:
            return self.lstm(x)[0]

    def broken(self, example: Tensor, x: Tensor) -> list[int]:
        return self.length(example, x, dynamo=True, dynamic_shapes={"x": {1: torch.export.Dim.AUTO}})

    def mended(self, example: Tensor, x: Tensor) -> list[int]:
        axes = {"x": {1: "steps"}, "y": {1: "steps"}}
        return self.length(example, x, dynamo=False, output_names=["y"], dynamic_axes=axes)

    def length(self, example: Tensor, x: Tensor, **options: Any) -> list[int]:
        # the length that the file declares for its output, or where it declares none the one that comes out
        session = self.session(self.Recurrent(), example, **options)
        declared = session.get_outputs()[0].shape[1]
        return [declared if isinstance(declared, int) else session.run(None, {"x": x.numpy()})[0].shape[1]]

    right = staticmethod(lambda example, x: [x.shape[1]])


class OnnxIntegerRelu(OnnxExportDefect):
    """ONNX Runtime has no Relu of int64.

    ONNX has one since opset 14, and torch.onnx writes it.

    Where: onnxruntime/core/providers/cpu/cpu_execution_provider.cc: Relu 14 of float, double, int8 and int32 alone
    Control: the maximum with zeros
    Threads: microsoft/onnxruntime#11725
    """

    tool = "ONNX Runtime"
    packages = ("onnxruntime", "torch", "onnx", "onnxscript")
    operators = ("relu",)
    limit = 0.0
    error = "Could not find an implementation for Relu"
    inputs = {"x": torch.arange(-2, 3)}
    broken = staticmethod(lambda x: F.relu(x))
    mended = staticmethod(lambda x: torch.maximum(x, torch.zeros_like(x)))


class OnnxLogSigmoid(OnnxExportDefect):
    """The logarithm of the sigmoid of -200 is -inf in ONNX.

    It is written as Log of Sigmoid, and the sigmoid of -104 is 0 in float32 already.

    Where: onnxscript/function_libs/torch_lib/ops/nn.py: aten_log_sigmoid
    Control: the negative softplus of the opposite
    """

    operators = ("log_sigmoid",)
    limit = 1e-6
    inputs = {"x": torch.tensor([-200.0, -100.0, -20.0, 0.0, 20.0])}
    broken = staticmethod(lambda x: F.logsigmoid(x))
    mended = staticmethod(lambda x: -F.softplus(-x))


class OnnxMergedInitialisers(OnnxWriterDefect):
    """torch's older ONNX exporter merges a weight of -0 with one of +0.

    Weights that compare equal are made one initialiser, and -0 compares equal to +0: a quotient by it has the other
    sign.

    Where: torch/csrc/jit/passes/onnx/deduplicate_initializers.cpp, in torch.onnx.export(dynamo=False)
    Control: keep_initializers_as_inputs=True, under which nothing is merged
    Threads: pytorch/pytorch#192607
    """

    packages = ("torch", "onnx", "onnxruntime")
    inputs = {"x": torch.ones(3), "above": torch.zeros(3), "below": -torch.zeros(3)}

    class Quotients(nn.Module):
        def __init__(self, above: Tensor, below: Tensor) -> None:
            super().__init__()
            self.above, self.below = nn.Parameter(above), nn.Parameter(below)

        def forward(self, x: Tensor) -> Tensor:
            return torch.cat([x / self.above, x / self.below])

    def broken(self, x: Tensor, above: Tensor, below: Tensor, separate: bool = False) -> np.ndarray:
        session = self.session(self.Quotients(above, below), x, dynamo=False, keep_initializers_as_inputs=separate)
        return session.run(None, {"x": x.numpy()})[0]

    def mended(self, x: Tensor, above: Tensor, below: Tensor) -> np.ndarray:
        return self.broken(x, above, below, separate=True)

    def right(self, x: Tensor, above: Tensor, below: Tensor) -> Tensor:
        return self.Quotients(above, below)(x)  # inf by +0, -inf by -0


class OnnxSecondExport(ProcessDefect):
    """torch's ONNX exporter takes a dynamic LSTM once, and refuses it the second time in one process.

    The first export leaves something behind by which the second infers a static length, and ends with an error.

    Where: torch/onnx/_internal/exporter and torch.export, on aten.lstm.input with a dynamic length
    Control: the TorchScript-based exporter (dynamo=False)
    """

    tool = "torch.onnx"
    packages: tuple[str, ...] = ("torch", "onnx", "onnxscript")
    script = """
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
    inputs = {"exports": torch.tensor([2])}

    def broken(self, exports: Tensor, form: str = "as it is") -> list[int]:
        # how many exports succeed, in a process of their own
        return [int(self.printed(form).split()[-1])]

    def mended(self, exports: Tensor) -> list[int]:
        return self.broken(exports, "mended")

    right = staticmethod(lambda exports: exports)
