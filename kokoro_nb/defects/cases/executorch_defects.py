"""Defects of ExecuTorch's debugging tools, of XNNPACK's kernels in it, and of what hands the operators to them."""

from math import inf, nan

import torch
from torch import Tensor, nn

from kokoro_nb.defects.defect_case import Defect, ProcessDefect, TanhGeluDefect


class ToolDefect(Defect):
    """What a debugging tool says; the Inspector, of a reference and an output."""

    tool = "ExecuTorch's Inspector"
    packages = ("executorch",)


class ExecutorchDebugBuffer(ToolDefect, ProcessDefect):
    """ExecuTorch ends the process where its buffer for intermediate outputs is too small.

    A tensor that does not fit fails an assertion in C++, which aborts: no exception can be caught, and nothing of the
    run is left.

    Where: devtools/etdump/etdump_flatcc.cpp: log_evalue, ET_CHECK
    Control: a buffer that holds them all
    """

    tool = "ExecuTorch's event tracer"
    script = """
import sys, torch
from executorch.exir import to_edge_transform_and_lower
from executorch.extension.pybindings.portable_lib import _load_for_executorch_from_buffer as load
x = torch.ones(2048)
program = to_edge_transform_and_lower(torch.export.export(torch.nn.ReLU(), (x,))).to_executorch()
module = load(program.buffer, enable_etdump=True, debug_buffer_size=int(sys.argv[1]))
try:
    module.forward([x])
except RuntimeError:
    pass
print("lives")
"""
    # sizes of the buffer in bytes; the output alone takes 8192
    inputs = {"small": torch.tensor([1000]), "large": torch.tensor([10_000_000])}

    def broken(self, small: Tensor, large: Tensor) -> list[bool]:
        # whether a process of its own comes to its last line
        return [self.printed(str(int(small))).strip().endswith("lives")]

    def mended(self, small: Tensor, large: Tensor) -> list[bool]:
        return self.broken(large, large)

    # the process lives on, whether the call raises an exception or not
    right = staticmethod(lambda small, large: [1.0])


class ExecutorchGapNan(ToolDefect):
    """ExecuTorch's numeric gap scores an output of NaN as 0 dB.

    The comparators behind Inspector.calculate_numeric_gap put 0 in the place of NaN on both sides, so that the error is
    the signal.

    Where: devtools/inspector/_inspector_utils.py: convert_to_float_tensor, torch.nan_to_num
    Control: the ratio computed by hand, which leaves NaN alone
    """

    inputs = {"reference": torch.linspace(-1, 1, 100), "output": torch.full((100,), nan)}

    def broken(self, reference: Tensor, output: Tensor) -> list[float]:
        from executorch.devtools.inspector.numerical_comparator import SNRComparator

        return SNRComparator().compare({((1,), reference): ((1,), output)}, {}, {})["gap"][0]

    mended = staticmethod(lambda x, output: [float(10 * torch.log10(x.square().mean() / (x - output).square().mean()))])
    right = staticmethod(lambda reference, output: [nan])  # the signal-to-noise ratio of NaN


class ExecutorchMissingOutput(ToolDefect):
    """ExecuTorch's compare_results passes over an output that is missing.

    The outputs are paired by zip, which ends with the shorter list: two references and one output make one row without
    an error.

    Where: devtools/inspector/_inspector_utils.py: calculate_mse, calculate_snr, calculate_cosine_similarity
    Control: no output missing
    """

    inputs = {"first": torch.ones(4), "second": torch.zeros(4)}

    def broken(self, *references: Tensor, missing: int = 1) -> list[int]:
        from executorch.devtools.inspector import compare_results

        outputs = references[: len(references) - missing]
        return [len(compare_results(list(references), list(outputs), ["mse"])["mse"])]

    def mended(self, *references: Tensor) -> list[int]:
        return self.broken(*references, missing=0)

    right = staticmethod(lambda *references: [len(references)])  # outputs that have to be judged


class XnnpackDefect(Defect):
    """What ExecuTorch computes with XNNPACK."""

    tool = "XNNPACK in ExecuTorch"
    packages = ("executorch",)
    runner = "xnnpack"
    backends: tuple[str, ...] = ("executorch-xnnpack",)


class XnnpackExpNan(XnnpackDefect):
    """XNNPACK's exp of NaN is 0.

    The kernel for the processor does not let NaN through; ExecuTorch's own does.

    Where: XNNPACK's kernel, given the operator by ExpConfig;
    backends/xnnpack/partition/config/generic_node_configs.py
    Control: NaN put back by a comparison
    Varies: XNNPACK picks its kernels for the processor; seen with AVX-512.
    """

    operators = ("exp",)
    mechanism = "operator lowered as another"
    inputs = {"x": torch.tensor([-1.0, 0.0, 1.0, nan] * 8)}
    broken = staticmethod(lambda x: torch.exp(x))
    mended = staticmethod(lambda x: torch.where(x == x, torch.exp(x), x))


class XnnpackMaximumNan(XnnpackDefect):
    """XNNPACK's maximum of NaN and 0 is 0.

    The kernel returns its second operand where the first is NaN; ExecuTorch's own kernel returns the NaN.

    Where: XNNPACK's kernel, given the operator by MaximumConfig;
    backends/xnnpack/partition/config/generic_node_configs.py
    Control: NaN put back by a comparison
    Varies: XNNPACK picks its kernels for the processor; seen with AVX-512.
    Threads: google/XNNPACK#441
    """

    operators = ("maximum",)
    mechanism = "operator lowered as another"
    inputs = {"x": torch.tensor([-1.0, 0.0, 1.0, nan] * 8), "y": torch.zeros(32)}
    broken = staticmethod(lambda x, y: torch.maximum(x, y))
    mended = staticmethod(lambda x, y: torch.where(x == x, torch.maximum(x, y), x))


class XnnpackRsqrtZero(XnnpackDefect):
    """XNNPACK's reciprocal root of 0 is NaN.

    The figure fits an estimate that is infinite there, corrected by a step of Newton's: 0 * inf.

    Where: XNNPACK's kernel, given the operator by ReciprocalSquareRootConfig;
    backends/xnnpack/partition/config/generic_node_configs.py
    Control: the quotient of 1 and the root
    Varies: XNNPACK picks its kernels for the processor; seen with AVX-512.
    """

    operators = ("rsqrt",)
    mechanism = "division by zero"
    inputs = {"x": torch.tensor([0.0, 1e-30, 1.0, 4.0] * 8)}
    broken = staticmethod(lambda x: torch.rsqrt(x))
    mended = staticmethod(lambda x: 1 / torch.sqrt(x))


class XnnpackSharedConvolution(XnnpackDefect):
    """ExecuTorch cannot lower to XNNPACK a model that calls one conv1d twice.

    Its pass writes conv1d as conv2d and gives the weight an axis, once for each call that reads it.

    Where: backends/xnnpack/_passes/conv1d_unsqueeze_pass.py: Conv1dUnsqueezePass
    Control: a convolution of its own for each call, with equal weights
    """

    error = "error occurred when running the 'Conv1dUnsqueezePass' pass"
    inputs = {"x": torch.linspace(-2.0, 2.0, 16).reshape(1, 2, 8)}

    def module(self, mended: bool) -> nn.Module:
        first, second = (nn.Conv1d(2, 2, 3, padding=1, bias=False) for _ in range(2))
        for conv in (first, second):
            nn.init.constant_(conv.weight, 0.25)
        return nn.Sequential(first, second if mended else first)


class XnnpackSqrtLarge(XnnpackDefect):
    """XNNPACK's square root of infinity is NaN, and of 3e38 it is half too large.

    The figures fit an estimate of the reciprocal root, corrected by a step of Newton's: 0 * inf at infinity, and at
    3e38 a correction that is lost.

    Where: XNNPACK's kernel, given the operator by SquareRootConfig;
    backends/xnnpack/partition/config/generic_node_configs.py
    Control: four times the root of a sixteenth, and infinity set apart
    Varies: XNNPACK picks its kernels for the processor; seen with AVX-512.
    Threads: google/XNNPACK#10399, google/XNNPACK#10407
    """

    inputs = {"x": torch.tensor([0.0, 1.0, 1e30, 1e38, 3e38, inf] * 4)}
    broken = staticmethod(lambda x: torch.sqrt(x))
    mended = staticmethod(lambda x: torch.where(x > 3.4e38, x, 4 * torch.sqrt(x * 0.0625)))


class XnnpackTanhGelu(TanhGeluDefect, XnnpackDefect):
    """XNNPACK computes gelu by erf where gelu by tanh is asked for.

    The partitioner takes the operator without a look at approximate, and XNNPACK's gelu is the one with erf.

    Where: backends/xnnpack/partition/config/generic_node_configs.py: GeluConfig; operators/op_gelu.py; mended after
    1.5.1 by pytorch/executorch#22851
    Control: the formula written out (models.pocket.transformer.tanh_gelu)
    Threads: pytorch/executorch#22851
    """
