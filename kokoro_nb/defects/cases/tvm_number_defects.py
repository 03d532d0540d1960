"""Defects of TVM's importer of exported programs: other numbers, dtypes and states than the program's."""

from collections.abc import Callable, Mapping
from math import inf, nan
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kokoro_nb.defects.cases.tvm_defects import TvmDefect


class TvmCumsumDtype(TvmDefect):
    """TVM's cumsum of int32 wraps around.

    The sums keep the dtype of the tensor; PyTorch makes them int64.

    Where: tvm/relax/frontend/torch/base_fx_graph_translator.py: _cumsum, _cumprod: dtype is None
    Control: the tensor cast to int64 before
    """

    operators = ("cumsum", "cumprod")
    inputs = {"x": torch.full((4,), 2**30, dtype=torch.int32)}

    def broken(self, x: Tensor) -> Tensor:
        return x.cumsum(0)

    def mended(self, x: Tensor) -> Tensor:
        return x.long().cumsum(0)


class TvmDropout(TvmDefect):
    """TVM leaves dropout out that is on at inference.

    The importer returns the argument of dropout, native_dropout and bernoulli, whatever the program says of training.

    Where: tvm/relax/frontend/torch/exported_program_translator.py: native_dropout.default is its first argument
    Control: the mask as an input
    """

    operators = ("native_dropout", "dropout", "bernoulli")
    mechanism = "baked-in random numbers"
    limit = 0.2  # of 4,096 numbers a share of 0.5 is dropped, give or take 0.008
    inputs = {"x": torch.ones(4096), "mask": (torch.arange(4096) % 2).float()}

    def broken(self, x: Tensor, mask: Tensor) -> Tensor:
        return F.dropout(x, 0.5, training=True)

    def mended(self, x: Tensor, mask: Tensor) -> Tensor:
        return x * mask / 0.5

    def seen(self, inputs: Mapping[str, Tensor], mended: bool, run: Callable[..., Any] | None) -> np.ndarray:
        # the share of the numbers that were dropped
        assert run is not None
        return np.mean(run(self.module(mended), inputs)[0] == 0, keepdims=True)

    def right(self, x: Tensor, mask: Tensor) -> list[float]:
        return [0.5]


class TvmEluScale(TvmDefect):
    """TVM drops the scale of selu, which is 5 % off on ordinary numbers.

    selu is elu with a scale in PyTorch's decomposition, and the converter of elu reads alpha alone.

    Where: tvm/relax/frontend/torch/base_fx_graph_translator.py: _elu
    Control: the formula written out
    """

    operators = ("selu", "elu")
    limit = 1e-6
    inputs = {"x": torch.linspace(-2, 2, 9)}

    def concerns(self, arguments: Mapping[str, Any]) -> bool:
        """Return whether it has a scale: selu has no such argument."""
        return arguments.get("scale") != 1

    def broken(self, x: Tensor) -> Tensor:
        return F.selu(x)

    def mended(self, x: Tensor) -> Tensor:
        return 1.0507009873554805 * torch.where(x > 0, x, 1.6732632423543772 * (torch.exp(x) - 1))


class TvmFloorDivision(TvmDefect):
    """TVM finds 10 times 0.1 in 1 by floor division, and PyTorch 9.

    What is floored is the rounded quotient; PyTorch takes away what fmod leaves over, and divides then: 0.1 in float32
    is above 0.1.

    Where: tvm/relax/frontend/torch/base_fx_graph_translator.py: _div, relax.op.floor_divide; topi.floor_divide
    Control: what fmod leaves over taken away before
    """

    operators = ("div", "floor_divide")
    inputs = {"x": torch.tensor([1.0, 2.5, 0.95, inf]), "y": torch.full((4,), 0.1)}

    def concerns(self, arguments: Mapping[str, Any]) -> bool:
        """Return whether the quotient of numbers that are not whole is floored."""
        return arguments.get("rounding_mode", "floor") == "floor" and not self.whole(arguments.get("self"))

    def broken(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.div(x, y, rounding_mode="floor")

    def mended(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.round((x - torch.fmod(x, y)) / y)


class TvmFusedEqual(TvmDefect):
    """TVM's pipeline that joins operators finds NaN equal to itself.

    x == x is folded to true where both are read in one loop, whatever the dtype.

    Where: src/sym/rewrite_simplify.cc (src/arith in older versions), after relax.transform.FuseOps
    Control: torch.isnan
    """

    operators = ("eq", "where")
    mechanism = "operators joined"
    inputs = {"x": torch.tensor([-inf, -1.0, 0.0, 2.0, nan])}

    def options(self, mended: bool) -> dict[str, bool]:
        return {"fused": True}

    def broken(self, x: Tensor) -> Tensor:
        return torch.where(x == x, x, 0.0)

    def mended(self, x: Tensor) -> Tensor:
        return torch.where(torch.isnan(x), 0.0, x)


class TvmIndexPairs(TvmDefect):
    """TVM takes x[:, i, j] at all pairs of i and j.

    Where an axis is left whole, one take follows another; PyTorch reads i and j together.

    Where: tvm/relax/frontend/torch/base_fx_graph_translator.py: _index_tensor, is_squeezable
    Control: one index into both axes laid flat
    """

    operators = ("index",)
    inputs = {"x": torch.arange(24.0).reshape(2, 3, 4), "i": torch.tensor([0, 2]), "j": torch.tensor([1, 3])}

    def concerns(self, arguments: Mapping[str, Any]) -> bool:
        """Return whether there are several indices, and an axis without one before the last of them."""
        indices = arguments.get("indices") or ()
        return None in indices and len(indices) - list(indices).count(None) > 1

    def broken(self, x: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return x[:, i, j]

    def mended(self, x: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return x.reshape(2, 12)[:, 4 * i + j]


class TvmIntegerDivision(TvmDefect):
    """TVM divides integers as integers: 1 / 2 is 0.

    The quotient has the dtype of the operands; PyTorch makes it a float.

    Where: tvm/relax/frontend/torch/base_fx_graph_translator.py: _binary_op of div.Tensor, relax.op.divide
    Control: the tensor cast to float before
    """

    operators = ("div",)
    inputs = {"x": torch.arange(4)}

    def concerns(self, arguments: Mapping[str, Any]) -> bool:
        """Return whether both are whole, and the quotient is not to be."""
        pair = (arguments.get("self"), arguments.get("other"))
        return all(map(self.whole, pair)) and not arguments.get("rounding_mode")

    def broken(self, x: Tensor) -> Tensor:
        return x / 2

    def mended(self, x: Tensor) -> Tensor:
        return x.float() / 2


class TvmLog1p(TvmDefect):
    """TVM computes log(1 + x) for log1p, and exp(x) - 1 for expm1.

    1 + 1e-8 is 1 in float32, so that small numbers are lost; softplus and log_sigmoid are made of log1p.

    Where: tvm/relax/frontend/torch/exported_program_translator.py: _log1p, expm1.default
    Control: the rounding of 1 + x divided out
    """

    operators = ("log1p", "expm1", "softplus", "log_sigmoid")
    limit = 1e-5
    inputs = {"x": torch.logspace(-9, -6, 13)}

    def broken(self, x: Tensor) -> Tensor:
        return torch.log1p(x)

    def mended(self, x: Tensor) -> Tensor:
        more = 1 + x
        return torch.where(more == 1, x, torch.log(more) * x / (more - 1))


class TvmLongSum(TvmDefect):
    """TVM adds the numbers of a sum one by one, in float32.

    A long sum rounds once for each number, and stands still where the next is too small for it; PyTorch adds in
    blocks.

    Where: topi.sum, by tvm/relax/transform/legalize_ops/statistical.py: a reduction with one running sum
    Control: sums of blocks
    """

    operators = ("sum", "mean", "rms_norm")
    limit = 1e-5
    inputs = {"x": torch.full((2**18,), 0.1)}

    def broken(self, x: Tensor) -> Tensor:
        return x.sum(0, keepdim=True)

    def mended(self, x: Tensor) -> Tensor:
        return x.reshape(512, 512).sum(0).sum(0, keepdim=True)


class TvmLostState(TvmDefect):
    """TVM forgets what a module writes to its buffers.

    The outputs of the exported program that are new values of buffers are left out, and the buffers are constants.

    Where: tvm/relax/frontend/torch/exported_program_translator.py: from_exported_program, user_outputs
    Control: the state as an input and an output
    """

    operators = ("add", "mul", "copy", "copy_", "where", "cat", "index_put", "slice_scatter", "scatter")
    mechanism = "lost state"
    inputs = {"x": torch.ones(1)}

    class Keeping(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.total = nn.Buffer(torch.zeros(1))

        def forward(self, x: Tensor) -> Tensor:
            self.total.add_(x)
            return self.total * 1

    def module(self, mended: bool) -> nn.Module:
        return super().module(mended) if mended else self.Keeping()

    def broken(self, x: Tensor) -> Tensor:
        return self.Keeping()(x)

    def mended(self, x: Tensor, total: Tensor) -> Tensor:
        return total + x

    def seen(self, inputs: Mapping[str, Tensor], mended: bool, run: Callable[..., Any] | None) -> np.ndarray:
        # what the second call gives
        assert run is not None
        states = [{"total": torch.full((1,), float(call))} if mended else {} for call in range(2)]
        return run(self.module(mended), *({**inputs, **state} for state in states))[1]

    def right(self, x: Tensor) -> Tensor:
        return 2 * x


class TvmProductDtype(TvmDefect):
    """TVM multiplies float64 and float16 matrices into float32.

    The importer asks for float32 whatever the operands are, as it does of a convolution.

    Where: tvm/relax/frontend/torch/exported_program_translator.py: matmul.default, out_dtype float32; so are mm and
    bmm
    Control: a sum of products
    """

    operators = ("matmul", "mm", "bmm", "linear", "conv1d")
    mechanism = "another shape or dtype"
    limit = 1e-12
    inputs = {"x": torch.linspace(0, 1, 12, dtype=torch.float64).reshape(3, 4)}

    def broken(self, x: Tensor) -> Tensor:
        return x @ x.T

    def mended(self, x: Tensor) -> Tensor:
        return (x[:, None] * x[None]).sum(-1)
