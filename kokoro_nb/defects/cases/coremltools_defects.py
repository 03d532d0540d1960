"""Defects of coremltools: its converter, and its debugging tools."""

from math import inf

import torch
from torch import Tensor

from kokoro_nb.defects.defect_case import Defect, TanhGeluDefect


class ConverterDefect(Defect):
    """What the converter makes of an exported program."""

    tool = "coremltools"
    packages: tuple[str, ...] = ("coremltools",)
    runner = "coremltools"
    backends: tuple[str, ...] = ("coreml",)


class TraceDefect(ConverterDefect):
    """What the converter makes of a trace."""

    options = {"traced": True}


class CoremltoolsAtan2(ConverterDefect):
    """atan2 of two numbers of 1e-9 is 0.05 in Core ML, and not pi / 4.

    It is written as atan(y / x), and 2e-8 is added to an x within 1e-8 of 0.

    Where: coremltools/converters/mil/frontend/torch/ops.py: atan2; apple/coremltools#2769, after 9.0, gives the
    2e-8 the sign of x
    Control: both scaled up before
    Threads: apple/coremltools#2769
    """

    operators = ("atan2",)
    inputs = {"y": torch.full((4,), 1e-9), "x": torch.tensor([1e-9, 2e-9, -1e-9, -2e-9])}
    broken = staticmethod(lambda y, x: torch.atan2(y, x))
    mended = staticmethod(lambda y, x: torch.atan2(y * 1e6, x * 1e6))


class CoremltoolsInt(TraceDefect):
    """coremltools cannot convert new_ones and whatever else takes an integer from a tensor of one element.

    Its converter of aten::Int calls int() on an array with one axis, which NumPy refuses since 2.4.

    Where: coremltools/converters/mil/frontend/torch/ops.py: _cast; mended after 9.0 by apple/coremltools#2632
    Control: full_like, which takes no size
    Threads: apple/coremltools#2633, apple/coremltools#2632
    """

    packages = ("coremltools", "numpy")
    operators = ("slice", "new_ones")
    error = "only 0-dimensional arrays can be converted to Python scalars"
    inputs = {"x": torch.arange(4.0)}
    broken = staticmethod(lambda x: x.new_ones(x.shape) + x)
    mended = staticmethod(lambda x: torch.full_like(x, 1.0) + x)


class CoremltoolsLostWrite(TraceDefect):
    """x[:, i] = y is lost in Core ML where the model was traced.

    The write goes through a view of the whole, x[:], which the converter takes for a new tensor: the old one is
    returned.

    Where: coremltools/converters/mil/frontend/torch/ops.py: index_put, of a slice of the whole
    Control: scatter, which returns a new tensor
    Threads: apple/coremltools#2188
    """

    inputs = {"x": torch.zeros(1, 8), "i": torch.tensor([[0, 3, 5]]), "y": torch.ones(1, 3)}

    def broken(self, x: Tensor, i: Tensor, y: Tensor) -> Tensor:
        written = x.clone()
        written[:, i[0]] = y
        return written

    mended = staticmethod(lambda x, i, y: x.scatter(1, i, y))


class CoremltoolsMatrixVector(TraceDefect):
    """coremltools cannot convert the product of a matrix and a vector in a trace.

    Its check of the shapes reads the second axis from the end of both operands.

    Where: coremltools/converters/mil/mil/ops/defs/iOS15/linear.py: matmul, x_shape[-1] == y_shape[-2]; mended after
    9.0 by apple/coremltools#2719
    Control: the vector with a second axis
    Threads: apple/coremltools#2263, apple/coremltools#2719
    """

    error = "list index out of range"
    inputs = {"x": torch.eye(3), "y": torch.arange(3.0)}
    broken = staticmethod(lambda x, y: x @ y)
    mended = staticmethod(lambda x, y: (x * y).sum(1))


class CoremltoolsOperators(ConverterDefect):
    """coremltools cannot convert where with a number, mask & mask, multiply, new_ones and lstm of an exported program.

    Its table names them otherwise or not at all, although it converts where.self, logical_and, mul, full and, in a
    trace, lstm.

    Where: coremltools/converters/mil/frontend/torch/internal_graph.py: from_exir_node; torch_op_registry.py
    Control: where of two tensors
    """

    operators = ("where", "__and__", "multiply", "new_ones", "lstm")
    error = "Unsupported fx node"
    inputs = {"x": torch.linspace(-2, 2, 5), "half": torch.full((5,), 0.5)}
    broken = staticmethod(lambda x, half: torch.where(x > 0, x, 0.5))
    mended = staticmethod(lambda x, half: torch.where(x > 0, x, half))


class CoremltoolsPsnr(Defect):
    """coremltools' PSNR of one array depends on its shape.

    The squared error is divided by len, the size of the first axis, and not by the number of elements: 256 x 100
    channels and frames lose 44 dB.

    Where: coremltools/models/ml_program/experimental/debugging_utils.py: compute_snr_and_psnr
    Control: the arrays laid flat
    """

    tool = "coremltools' debugging tools"
    packages = ("coremltools",)
    signal = torch.sin(torch.arange(25_600.0)).reshape(1, 256, 100)
    inputs = {"signal": signal, "noisy": 1.01 * signal}

    def broken(self, signal: Tensor, noisy: Tensor) -> list[float]:
        from coremltools.models.ml_program.experimental.debugging_utils import compute_snr_and_psnr

        return [compute_snr_and_psnr(noisy.double().numpy(), signal.double().numpy())[1]]

    def mended(self, signal: Tensor, noisy: Tensor) -> list[float]:
        return self.broken(signal.ravel(), noisy.ravel())

    right = staticmethod(lambda x, noisy: [10 * float(torch.log10(x.square().max() / (noisy - x).square().mean()))])


class CoremltoolsReciprocal(ConverterDefect):
    """1 / x is 1 / (x + 0.0001) in Core ML.

    It is written as MIL's inverse, whose epsilon is left at its default.

    Where: coremltools/converters/mil/frontend/torch/ops.py: reciprocal, without epsilon;
    mil/ops/defs/iOS17/elementwise_unary.py: inverse; mended after 9.0 by apple/coremltools#2773
    Control: the quotient of two tensors (the patch divided_snake)
    Threads: apple/coremltools#2773
    """

    operators = ("reciprocal",)
    inputs = {"x": torch.linspace(-1, 1, 16), "y": torch.full((16,), 0.01)}
    broken = staticmethod(lambda x, y: x * (1 / y))
    mended = staticmethod(lambda x, y: x / y)


class CoremltoolsRemainder(ConverterDefect):
    """x % 1 is 0 in Core ML.

    The remainder is written as x - floor_div(x, 1) * 1, and noop_elimination takes a division by 1 for one that does
    nothing: x - x is left.

    Where: coremltools/converters/mil/mil/passes/defs/cleanup/noop_elimination.py: floor_div; frontend/torch/ops.py:
    remainder; mended after 9.0 by apple/coremltools#2762
    Control: x - floor(x) (the patch floor_phase)
    Threads: apple/coremltools#2836, apple/coremltools#2761, apple/coremltools#2762
    """

    operators = ("remainder", "div", "floor_divide")
    inputs = {"x": torch.linspace(0, 40, 161)[:-1]}
    concerns = staticmethod(lambda arguments: arguments.get("other") in (1, 1.0))
    broken = staticmethod(lambda x: x % 1)
    mended = staticmethod(lambda x: x - torch.floor(x))


class CoremltoolsRsqrt(ConverterDefect):
    """The reciprocal root of 1e-12 is 29 % too small in Core ML.

    It is written as MIL's rsqrt, whose epsilon of 1e-12 is left at its default: what is computed is
    1 / sqrt(x + 1e-12).

    Where: coremltools/converters/mil/frontend/torch/ops.py: rsqrt, without epsilon;
    mil/ops/defs/iOS17/elementwise_unary.py: rsqrt
    Control: the quotient of 1 and the root, both tensors
    """

    operators = ("rsqrt",)
    inputs = {"x": torch.logspace(-12, 0, 13), "one": torch.ones(13)}
    broken = staticmethod(lambda x, one: one * torch.rsqrt(x))
    mended = staticmethod(lambda x, one: one / torch.sqrt(x))


class CoremltoolsTanhGelu(TanhGeluDefect, ConverterDefect):
    """Core ML computes gelu by erf where gelu by tanh is asked for in an exported program.

    torch.export gives approximate by its name, and the converter looks at arguments by position alone.

    Where: coremltools/converters/mil/frontend/torch/ops.py: gelu, len(inputs) == 2
    Control: the formula written out
    Threads: apple/coremltools#2863
    """


class CoremltoolsTracedInfinity(TraceDefect):
    """-inf is -3.4e38 in Core ML where the model was traced.

    The frontend for traces replaces an infinity that is written in the model, so that a masked score is a number.

    Where: coremltools/converters/mil/frontend/torch/ops.py: 3.4e+38 in the place of an infinity
    Control: the infinity as an input; or torch.export in place of the trace
    """

    inputs = {"x": torch.tensor([-1.0, 0.0, 1.0, 2.0]), "low": torch.full((4,), -inf)}
    broken = staticmethod(lambda x, low: torch.where(x > 0, torch.full((4,), -inf), x))
    mended = staticmethod(lambda x, low: torch.where(x > 0, low, x))
