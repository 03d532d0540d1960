"""Defects of PyTorch itself."""

from collections.abc import Mapping
from math import inf, nan
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kokoro_nb.defects.defect_case import Defect


class InductorWrittenZero(Defect):
    """AOTInductor takes x * 0 for 0, whatever x is.

    A pass over the whole graph folds a product with a 0 that is written as a number, so that NaN and infinity end
    there.
    """

    tool = "AOTInductor"
    packages = ("torch",)
    runner = "aot_inductor"
    where = "torch/_inductor/fx_passes/joint_graph.py: joint_graph_constant_folding"
    backends = ("aot-inductor",)
    operators = ("mul",)
    mechanism = "operator lowered as another"
    mended_by = "x - x in the place of x * 0"
    inputs = {"x": torch.tensor([-inf, -1.0, 0.0, inf, nan])}

    def concerns(self, arguments: Mapping[str, Any]) -> bool:
        """Return whether it is multiplied by the number 0."""
        return isinstance(arguments.get("other"), int | float) and arguments.get("other") == 0

    def broken(self, x: Tensor) -> Tensor:
        return x * 0

    def mended(self, x: Tensor) -> Tensor:
        return x - x


class TorchGeluInfinity(Defect):
    """PyTorch's own gelu of infinity is NaN.

    oneDNN's kernel gives it, which a contiguous tensor of more than one number takes in float32; PyTorch's own, which
    runs otherwise and where oneDNN is turned off, gives infinity.
    """

    tool = "PyTorch"
    packages = ("torch",)
    where = "oneDNN's gelu by erf, called by aten/src/ATen/native/Activation.cpp: gelu_out_cpu"
    mended_by = "float64"
    varies = "oneDNN picks its kernels for the processor; seen with AVX-512."
    threads = ("pytorch/pytorch#185770", "pytorch/pytorch#192318")
    inputs = {"x": torch.tensor([-50.0, 0.0, 50.0, inf] * 8)}

    def broken(self, x: Tensor) -> Tensor:
        return F.gelu(x)

    def mended(self, x: Tensor) -> Tensor:
        return F.gelu(x.double())

    def right(self, x: Tensor) -> np.ndarray:
        return np.maximum(x.numpy(), 0)  # the limits: 0 below, the number itself above


class TorchscriptSignedZero(Defect):
    """TorchScript merges the constants -0 and +0.

    Constants that compare equal are made one when a trace is optimised, and atan2 on the branch cut has the other sign.
    """

    tool = "TorchScript"
    packages = ("torch",)
    where = "torch/csrc/jit/passes/constant_pooling.cpp, by the comparison of torch/csrc/jit/ir/node_hashing.cpp"
    threads = ("pytorch/pytorch#192605",)
    mended_by = "the zeros as inputs"
    limit = 1e-6
    inputs = {"x": -torch.ones(3), "above": torch.zeros(3), "below": -torch.zeros(3)}

    class Constants(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.cat([torch.atan2(torch.tensor(zero), x) for zero in (0.0, -0.0)])

    class Inputs(nn.Module):
        def forward(self, x: Tensor, above: Tensor, below: Tensor) -> Tensor:
            return torch.cat([torch.atan2(above, x), torch.atan2(below, x)])

    def broken(self, x: Tensor, above: Tensor, below: Tensor) -> Tensor:
        return torch.jit.trace(self.Constants(), (x,), check_trace=False)(x)

    def mended(self, x: Tensor, above: Tensor, below: Tensor) -> Tensor:
        return torch.jit.trace(self.Inputs(), (x, above, below), check_trace=False)(x, above, below)

    def right(self, x: Tensor, above: Tensor, below: Tensor) -> Tensor:
        return self.Constants()(x.float())  # pi by +0, -pi by -0
