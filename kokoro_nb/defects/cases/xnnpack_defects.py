"""Defects of XNNPACK's kernels in ExecuTorch, and of what hands the operators to them."""

from collections.abc import Mapping
from math import inf, nan
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kokoro_nb.defects.defect_case import Defect


class XnnpackDefect(Defect):
    """What ExecuTorch computes with XNNPACK."""

    tool = "XNNPACK in ExecuTorch"
    packages = ("executorch",)
    runner = "xnnpack"
    backends: tuple[str, ...] = ("executorch-xnnpack",)
    limit = 1e-5


class XnnpackKernelDefect(XnnpackDefect):
    """What a kernel computes."""

    varies = "XNNPACK picks its kernels for the processor; seen with AVX-512."
    configuration: str

    @property
    def where(self) -> str:  # type: ignore[override]
        return (
            f"XNNPACK's kernel, given the operator by {self.configuration}; "
            "backends/xnnpack/partition/config/generic_node_configs.py"
        )


class XnnpackExpNan(XnnpackKernelDefect):
    """XNNPACK's exp of NaN is 0.

    The kernel for the processor does not let NaN through; ExecuTorch's own does.
    """

    configuration = "ExpConfig"
    operators = ("exp",)
    mechanism = "operator lowered as another"
    mended_by = "NaN put back by a comparison"
    inputs = {"x": torch.tensor([-1.0, 0.0, 1.0, nan] * 8)}

    def broken(self, x: Tensor) -> Tensor:
        return torch.exp(x)

    def mended(self, x: Tensor) -> Tensor:
        return torch.where(x == x, torch.exp(x), x)


class XnnpackLogLarge(XnnpackKernelDefect):
    """XNNPACK's logarithm of 3e38 is infinite.

    The kernel takes the largest numbers for infinity; ExecuTorch's own kernel does not.
    """

    configuration = "LogConfig"
    mended_by = "the logarithm of a quarter and that of 4"
    inputs = {"x": torch.tensor([1.0, 10.0, 1e38, 3e38] * 8)}

    def broken(self, x: Tensor) -> Tensor:
        return torch.log(x)

    def mended(self, x: Tensor) -> Tensor:
        return torch.log(x * 0.25) + 1.3862943611198906


class XnnpackMaximumNan(XnnpackKernelDefect):
    """XNNPACK's maximum of NaN and 0 is 0.

    The kernel returns its second operand where the first is NaN; ExecuTorch's own kernel returns the NaN.
    """

    configuration = "MaximumConfig"
    operators = ("maximum",)
    mechanism = "operator lowered as another"
    threads = ("google/XNNPACK#441",)
    mended_by = "NaN put back by a comparison"
    limit = 0.0
    inputs = {"x": torch.tensor([-1.0, 0.0, 1.0, nan] * 8), "y": torch.zeros(32)}

    def broken(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.maximum(x, y)

    def mended(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.where(x == x, torch.maximum(x, y), x)

    def right(self, x: Tensor, y: Tensor) -> np.ndarray:
        return np.maximum(x.numpy(), y.numpy())


class XnnpackRsqrtZero(XnnpackKernelDefect):
    """XNNPACK's reciprocal root of 0 is NaN.

    The figure fits an estimate that is infinite there, corrected by a step of Newton's: 0 * inf.
    """

    configuration = "ReciprocalSquareRootConfig"
    operators = ("rsqrt",)
    mechanism = "division by zero"
    mended_by = "the quotient of 1 and the root"
    inputs = {"x": torch.tensor([0.0, 1e-30, 1.0, 4.0] * 8)}

    def broken(self, x: Tensor) -> Tensor:
        return torch.rsqrt(x)

    def mended(self, x: Tensor) -> Tensor:
        return 1 / torch.sqrt(x)


class XnnpackSharedConvolution(XnnpackDefect):
    """ExecuTorch cannot lower to XNNPACK a model that calls one conv1d twice.

    Its pass writes conv1d as conv2d and gives the weight an axis, once for each call that reads it.
    """

    where = "backends/xnnpack/_passes/conv1d_unsqueeze_pass.py: Conv1dUnsqueezePass"
    mended_by = "a convolution of its own for each call, with equal weights"
    error = "error occurred when running the 'Conv1dUnsqueezePass' pass"
    inputs = {"x": torch.linspace(-2.0, 2.0, 16).reshape(1, 2, 8)}

    def module(self, mended: bool) -> nn.Module:
        first = self.convolution()
        return nn.Sequential(first, self.Sine(), self.convolution() if mended else first)

    class Sine(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.sin(x)

    def convolution(self) -> nn.Conv1d:
        conv = nn.Conv1d(2, 2, 3, padding=1)
        conv.weight = nn.Parameter(torch.linspace(-1.0, 1.0, 12).reshape(2, 2, 3))
        conv.bias = nn.Parameter(torch.tensor([0.5, -0.5]))
        return conv


class XnnpackSineLarge(XnnpackKernelDefect):
    """XNNPACK's sine of 3e38 is NaN.

    The kernel has no case for arguments that its reduction to one period cannot hold; ExecuTorch's own has.
    """

    configuration = "SinConfig"
    mended_by = "ExecuTorch's own kernels, without the delegate"
    inputs = {"x": torch.tensor([-3e38, -1.0, 1.0, 3e38] * 8)}

    def options(self, mended: bool) -> dict[str, bool]:
        return {"delegated": not mended}

    def broken(self, x: Tensor) -> Tensor:
        return torch.sin(x)

    mended = broken


class XnnpackSqrtLarge(XnnpackKernelDefect):
    """XNNPACK's square root of infinity is NaN, and of 3e38 it is half too large.

    The figures fit an estimate of the reciprocal root, corrected by a step of Newton's: 0 * inf at infinity, and at
    3e38 a correction that is lost.
    """

    configuration = "SquareRootConfig"
    threads = ("google/XNNPACK#10399", "google/XNNPACK#10407")
    mended_by = "four times the root of a sixteenth, and infinity set apart"
    inputs = {"x": torch.tensor([0.0, 1.0, 1e30, 1e38, 3e38, inf] * 4)}

    def broken(self, x: Tensor) -> Tensor:
        return torch.sqrt(x)

    def mended(self, x: Tensor) -> Tensor:
        return torch.where(x > 3.4e38, x, 4 * torch.sqrt(x * 0.0625))


class XnnpackTanhGelu(XnnpackDefect):
    """XNNPACK computes gelu by erf where gelu by tanh is asked for.

    The partitioner takes the operator without a look at approximate, and XNNPACK's gelu is the one with erf.
    """

    where = (
        "backends/xnnpack/partition/config/generic_node_configs.py: GeluConfig; operators/op_gelu.py; "
        "mended after 1.5.1 by pytorch/executorch#22851"
    )
    operators = ("gelu",)
    mechanism = "operator lowered as another"
    threads = ("pytorch/executorch#22851",)
    mended_by = "the formula written out (models.gelu.tanh_gelu_written_out)"
    inputs = {"x": torch.linspace(-6, 6, 401)}

    def concerns(self, arguments: Mapping[str, Any]) -> bool:
        """Return whether the approximation by tanh is asked for."""
        return arguments.get("approximate") == "tanh"

    def broken(self, x: Tensor) -> Tensor:
        return F.gelu(x, approximate="tanh")

    def mended(self, x: Tensor) -> Tensor:
        return 0.5 * x * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x * x * x)))
