"""Defects of TVM: its importer of exported programs, and its compiler."""

from collections.abc import Callable, Mapping
from math import inf, nan
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from kokoro_nb.defects.defect_case import Defect


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

    def broken(self, x: Tensor) -> Tensor:
        return x.argmax(0)

    def mended(self, x: Tensor) -> Tensor:
        return torch.where(torch.isnan(x), inf, x).argmax(0)


class TvmBakedNoise(TvmDefect):
    """TVM's importer draws random numbers once, when it imports.

    randn becomes a constant of the compiled program: every call has the same noise, without a word.

    Where: tvm/relax/frontend/torch/exported_program_translator.py: _randn, np.random.randn
    Control: the noise as an input (the patch explicit_noise)
    Threads: apache/tvm#18815
    """

    operators = ("rand", "rand_like", "randn", "randn_like")
    mechanism = "baked-in random numbers"
    draw = torch.Generator().manual_seed(0)
    inputs = {"x": torch.zeros(16), "first": torch.randn(16, generator=draw), "second": torch.randn(16, generator=draw)}

    def broken(self, x: Tensor) -> Tensor:
        return x + torch.randn(16)

    def mended(self, x: Tensor, noise: Tensor) -> Tensor:
        return x + noise

    def seen(self, inputs: Mapping[str, Tensor], mended: bool, run: Callable[..., Any] | None) -> np.ndarray:
        # the share of the numbers that two calls of one compiled program have in common
        assert run is not None
        noises = [{"noise": inputs[name]} if mended else {} for name in ("first", "second")]
        first, second = run(self.module(mended), *({"x": inputs["x"], **noise} for noise in noises))
        return np.mean(first == second, keepdims=True)

    def right(self, *inputs: Tensor) -> list[float]:
        return [0.0]


class TvmClampNan(TvmDefect):
    """TVM's clamp gives a bound for NaN, as do relu, elu, maximum, minimum, max and min.

    They are comparisons with <, which no NaN passes, so that the bound or the other operand is taken in its place.

    Where: tvm/relax/frontend/torch/base_fx_graph_translator.py: _clamp, _elu, _hardsigmoid;
    exported_program_translator.py: _hardtanh: relax.op.clip and relax.op.nn.relu; relax.op.maximum and relax.op.max
    Control: NaN put back by isnan
    Threads: apache/tvm#19579
    """

    operators: tuple[str, ...] = (
        *("clamp", "clamp_min", "clamp_max", "relu", "relu6", "hardtanh", "hardsigmoid", "elu"),
        *("maximum", "minimum", "max", "min"),
    )
    inputs = {"x": torch.tensor([-inf, -1.0, 0.0, 2.0, inf, nan])}

    def concerns(self, arguments: Mapping[str, Any]) -> bool:
        """Return whether it is no elu with a scale, which is lost."""
        return arguments.get("scale") in (None, 1)

    def broken(self, x: Tensor) -> Tensor:
        return x.clamp(-1.0, 1.0)

    def mended(self, x: Tensor) -> Tensor:
        return torch.where(torch.isnan(x), x, x.clamp(-1.0, 1.0))


class TvmIgnoredAlpha(TvmDefect):
    """TVM's importer drops alpha from torch.add, torch.sub and torch.rsub.

    The converter of binary operators reads the two operands alone, so that x + 2 y becomes x + y.

    Where: tvm/relax/frontend/torch/base_fx_graph_translator.py: _binary_op, _rsub
    Control: the product written out
    """

    operators = ("add", "sub", "rsub")
    inputs = {"x": torch.arange(4.0), "y": torch.ones(4)}

    def concerns(self, arguments: Mapping[str, Any]) -> bool:
        """Return whether there is another alpha than 1."""
        return arguments.get("alpha", 1) != 1

    def broken(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.add(x, y, alpha=2)

    def mended(self, x: Tensor, y: Tensor) -> Tensor:
        return x + 2 * y


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

    def broken(self, x: Tensor) -> Tensor:
        return F.instance_norm(x, eps=1e-5)

    def mended(self, x: Tensor) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        return centred * torch.rsqrt((centred * centred).mean(-1, keepdim=True) + 1e-5)


class TvmIntegerAndHalf(TvmDefect):
    """TVM's importer rounds 0.5 to 0 beside integers, and makes it true beside truth values.

    A number beside a tensor is made a constant of the tensor's dtype, in sums, products and comparisons; PyTorch would
    make the result a float.

    Where: tvm/relax/frontend/torch/base_fx_graph_translator.py: _binary_op, call_binary_op
    Control: the tensor cast to float before
    Threads: apache/tvm#20372
    """

    operators = ("add", "sub", "rsub", "mul", "eq", "ne", "lt", "le", "gt", "ge")
    inputs = {"x": torch.arange(4)}

    def concerns(self, arguments: Mapping[str, Any]) -> bool:
        """Return whether a number stands beside whole numbers or truth values."""
        return self.whole(arguments.get("self")) and isinstance(arguments.get("other"), int | float)

    def broken(self, x: Tensor) -> Tensor:
        return x + 0.5

    def mended(self, x: Tensor) -> Tensor:
        return x.float() + 0.5


class TvmMaxPoolNan(TvmDefect):
    """TVM's max pooling passes over NaN.

    The maximum of a window is taken by a comparison, which no NaN passes.

    Where: topi.nn.pool1d, by tvm/relax/transform/legalize_ops/nn.py
    Control: NaN found by a pooling of its own
    """

    operators = ("max_pool1d",)
    inputs = {"x": torch.tensor([[[1.0, nan, nan, 3.0, 4.0, 5.0]]])}

    def broken(self, x: Tensor) -> Tensor:
        return F.max_pool1d(x, 2)

    def mended(self, x: Tensor) -> Tensor:
        unknown = F.max_pool1d(torch.where(torch.isnan(x), 1.0, 0.0), 2)
        return torch.where(unknown > 0, nan, F.max_pool1d(x, 2))


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

    def broken(self, x: Tensor, i: Tensor) -> Tensor:
        return x[i]

    def mended(self, x: Tensor, i: Tensor) -> Tensor:
        return x[torch.where(i < 0, i + x.shape[0], i)]


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

    def broken(self, x: Tensor) -> Tensor:
        return x != x

    def mended(self, x: Tensor) -> Tensor:
        return torch.isnan(x)


class TvmRemainderInfinity(TvmDefect):
    """TVM's remainder by infinity is NaN, and that of a large number is off by a share of the divisor.

    It is computed as x - floor(x / y) * y, where 0 * inf is NaN, and the product of a large quotient is rounded.

    Where: tvm/relax/frontend/torch/exported_program_translator.py: remainder.Tensor is floor_mod; topi.floor_mod
    Control: fmod, and the divisor added where the signs differ
    """

    operators = ("remainder",)
    limit = 1e-6
    inputs = {"x": torch.tensor([0.5, 1.0, 5.0, -7.0, 12345.67]), "y": torch.tensor([inf, inf, 3.0, 4.0, 0.1])}

    def broken(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.remainder(x, y)

    def mended(self, x: Tensor, y: Tensor) -> Tensor:
        rest = torch.fmod(x, y)
        return torch.where((rest < 0) & (y > 0) | (rest > 0) & (y < 0), rest + y, rest)


class TvmWrittenZero(TvmDefect):
    """TVM takes x * 0 for 0, whatever x is.

    The simplifier folds a product with a 0 that is written as a number, so that NaN and infinity end there.

    Where: src/ir/prim/const_fold.h (src/arith in older versions): TryConstFold of Mul, for floats as for integers
    Control: a 0 that is an input
    """

    operators = ("mul",)
    inputs = {"x": torch.tensor([-inf, -1.0, 0.0, 2.0, inf, nan]), "zero": torch.zeros(6)}

    def concerns(self, arguments: Mapping[str, Any]) -> bool:
        """Return whether it is multiplied by the number 0."""
        return isinstance(arguments.get("other"), int | float) and arguments.get("other") == 0

    def broken(self, x: Tensor, zero: Tensor) -> Tensor:
        return x * 0

    def mended(self, x: Tensor, zero: Tensor) -> Tensor:
        return x * zero
