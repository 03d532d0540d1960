"""Defects of TVM: what its compiler computes."""

from collections.abc import Mapping
from math import inf, nan
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from kokoro_nb.defects.defect_case import Defect, FloorDivisionDefect, WrittenZeroDefect


class TvmDefect(Defect):
    """What TVM computes."""

    tool = "TVM"
    packages = ("apache-tvm",)
    runner = "tvm"
    mechanism = "operator lowered as another"
    backends: tuple[str, ...] = ("tvm",)

    @staticmethod
    def whole(argument: Any) -> bool:
        """Return whether an argument is a tensor of whole numbers or truth values, or a whole number."""
        meta = getattr(argument, "meta", None)
        dtype = meta["val"].dtype if meta else None
        return isinstance(argument, int) or (dtype is not None and not dtype.is_floating_point)


class TvmArgmaxNan(TvmDefect):
    """TVM's argmax passes over NaN.

    The reduction keeps the larger of two by a comparison, which no NaN passes; PyTorch returns where the NaN is.

    Where: topi.argmax, by tvm/relax/transform/legalize_ops/search.py
    Control: NaN asked for first, as an infinity
    Threads: apache/tvm#19558
    """

    operators = ("argmax",)
    inputs = {"x": torch.tensor([1.0, nan, 3.0, 2.0])}
    broken = staticmethod(lambda x: x.argmax(0))
    mended = staticmethod(lambda x: torch.where(torch.isnan(x), inf, x).argmax(0))


class TvmClampNan(TvmDefect):
    """TVM's clamp gives a bound for NaN, as do relu, elu, maximum and minimum; max, min and max pooling pass over it.

    They are comparisons with <, which no NaN passes, so that the bound or the other operand is taken in its place.

    Where: tvm/relax/frontend/torch/base_fx_graph_translator.py: _clamp, _elu, _hardsigmoid;
    exported_program_translator.py: _hardtanh: relax.op.clip and relax.op.nn.relu; relax.op.maximum and relax.op.max;
    topi.nn.pool1d
    Control: NaN put back by isnan
    Threads: apache/tvm#19579
    """

    operators: tuple[str, ...] = (
        *("clamp", "clamp_min", "clamp_max", "relu", "relu6", "hardtanh", "hardsigmoid", "elu"),
        *("maximum", "minimum", "max", "min", "max_pool1d"),
    )
    inputs = {"x": torch.tensor([-inf, -1.0, 0.0, 2.0, inf, nan])}
    concerns = staticmethod(lambda arguments: arguments.get("scale") in (None, 1))
    broken = staticmethod(lambda x: x.clamp(-1.0, 1.0))
    mended = staticmethod(lambda x: torch.where(torch.isnan(x), x, x.clamp(-1.0, 1.0)))


class TvmFloorDivision(FloorDivisionDefect, TvmDefect):
    """TVM finds 10 times 0.1 in 1 by floor division, and PyTorch 9.

    What is floored is the rounded quotient; PyTorch takes away what fmod leaves over, and divides then: 0.1 in float32
    is above 0.1.

    Where: tvm/relax/frontend/torch/base_fx_graph_translator.py: _div, relax.op.floor_divide; topi.floor_divide
    Control: what fmod leaves over taken away before
    """

    def concerns(self, arguments: Mapping[str, Any]) -> bool:
        """Return whether the quotient of numbers that are not whole is floored."""
        return arguments.get("rounding_mode", "floor") == "floor" and not self.whole(arguments.get("self"))


class TvmFusedEqual(TvmDefect):
    """TVM's pipeline that joins operators finds NaN equal to itself.

    x == x is folded to true where both are read in one loop, whatever the dtype.

    Where: src/sym/rewrite_simplify.cc (src/arith in older versions), after relax.transform.FuseOps
    Control: torch.isnan
    """

    operators = ("eq", "where")
    mechanism = "operators joined"
    inputs = {"x": torch.tensor([-inf, -1.0, 0.0, 2.0, nan])}
    options = {"fused": True}
    broken = staticmethod(lambda x: torch.where(x == x, x, 0.0))
    mended = staticmethod(lambda x: torch.where(torch.isnan(x), 0.0, x))


class TvmInstanceNorm(TvmDefect):
    """TVM's instance norm is NaN where the mean is large beside the deviation.

    The variance is computed in one pass, E[x²] - E[x]², without a floor: rounding takes it below 0, and its root is
    NaN.

    Where: include/tvm/topi/nn/instance_norm.h: var = E[x * x] - mean * mean, from one reduction; that of layer_norm
    was mended by apache/tvm#19643
    Control: the variance of what is left after the mean is taken away (the patch two_pass_norm)
    Threads: apache/tvm#14410
    """

    operators = ("instance_norm",)
    mechanism = "one-pass variance"
    limit = 1e-2  # rounding of the input alone, 5e-7, is 5e-5 of the deviation
    inputs = {"x": 10 + 0.01 * torch.randn(1, 64, 3840, generator=torch.Generator().manual_seed(0))}
    broken = staticmethod(lambda x: F.instance_norm(x, eps=1e-5))

    def mended(self, x: Tensor) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        return centred * torch.rsqrt((centred * centred).mean(-1, keepdim=True) + 1e-5)


class TvmLog1p(TvmDefect):
    """TVM computes log(1 + x) for log1p, and exp(x) - 1 for expm1.

    1 + 1e-8 is 1 in float32, so that small numbers are lost; softplus and log_sigmoid are made of log1p.

    Where: tvm/relax/frontend/torch/exported_program_translator.py: _log1p, expm1.default
    Control: the rounding of 1 + x divided out
    """

    operators = ("log1p", "expm1", "softplus", "log_sigmoid")
    inputs = {"x": torch.logspace(-9, -6, 13)}
    broken = staticmethod(lambda x: torch.log1p(x))

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
    inputs = {"x": torch.full((2**18,), 0.1)}
    broken = staticmethod(lambda x: x.sum(0, keepdim=True))
    mended = staticmethod(lambda x: x.reshape(512, 512).sum(0).sum(0, keepdim=True))


class TvmNegativeIndex(TvmDefect):
    """TVM reads before the tensor where an index counts from the end.

    The importer hands the indices to take as they are, and what stands before the tensor in memory is read.

    Where: tvm/relax/frontend/torch/base_fx_graph_translator.py: _index_tensor, relax.op.take; the importer of ONNX
    adds the size since apache/tvm#19525
    Control: the size added to what is negative
    Threads: apache/tvm#19436
    """

    operators = ("select", "index")
    inputs = {"x": torch.arange(5.0) + 1, "i": torch.tensor([-1, 0, -2])}
    broken = staticmethod(lambda x, i: x[i])
    mended = staticmethod(lambda x, i: x[torch.where(i < 0, i + x.shape[0], i)])


class TvmNotEqualNan(TvmDefect):
    """TVM finds NaN equal to NaN.

    What asks for NaN by x != x is folded to false, for floats as for integers, and any other != is compiled to LLVM's
    ordered comparison, which NaN does not pass.

    Where: src/sym/rewrite_simplify.cc (src/arith in older versions): x == x is true, whatever the dtype;
    src/target/llvm/codegen_llvm.cc: NE is CreateFCmpONE, which is ordered
    Control: torch.isnan
    Threads: apache/tvm#17158
    """

    operators = ("ne", "eq")
    inputs = {"x": torch.tensor([-inf, -1.0, 0.0, 2.0, inf, nan])}
    broken = staticmethod(lambda x: x != x)
    mended = staticmethod(lambda x: torch.isnan(x))


class TvmRemainderInfinity(TvmDefect):
    """TVM's remainder by infinity is NaN, and that of a large number is off by a share of the divisor.

    It is computed as x - floor(x / y) * y, where 0 * inf is NaN, and the product of a large quotient is rounded.

    Where: tvm/relax/frontend/torch/exported_program_translator.py: remainder.Tensor is floor_mod; topi.floor_mod
    Control: fmod, and the divisor added where the signs differ
    """

    operators = ("remainder",)
    inputs = {"x": torch.tensor([0.5, 1.0, 5.0, -7.0, 12345.67]), "y": torch.tensor([inf, inf, 3.0, 4.0, 0.1])}
    broken = staticmethod(lambda x, y: torch.remainder(x, y))

    def mended(self, x: Tensor, y: Tensor) -> Tensor:
        rest = torch.fmod(x, y)
        return torch.where((rest < 0) & (y > 0) | (rest > 0) & (y < 0), rest + y, rest)


class TvmWrittenZero(WrittenZeroDefect, TvmDefect):
    """TVM takes x * 0 for 0, whatever x is.

    The simplifier folds a product with a 0 that is written as a number, so that NaN and infinity end there.

    Where: src/ir/prim/const_fold.h (src/arith in older versions): TryConstFold of Mul, for floats as for integers
    Control: a 0 that is an input
    """
