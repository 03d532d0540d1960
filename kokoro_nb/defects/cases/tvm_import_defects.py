"""Defects of TVM's importer of exported programs: what it drops, takes for another dtype, or refuses."""

from collections.abc import Callable, Mapping
from math import inf
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from kokoro_nb.defects.cases.tvm_defects import TvmDefect


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
    broken = staticmethod(lambda x: x + torch.randn(16))
    mended = staticmethod(lambda x, noise: x + noise)

    def seen(self, inputs: Mapping[str, Tensor], mended: bool, run: Callable[..., Any] | None) -> np.ndarray:
        # the share of the numbers that two calls of one compiled program have in common
        assert run is not None
        noises = [{"noise": inputs[name]} if mended else {} for name in ("first", "second")]
        first, second = run(self.module(mended), *({"x": inputs["x"], **noise} for noise in noises))
        return np.mean(first == second, keepdims=True)

    right = staticmethod(lambda *inputs: [0.0])


class TvmIgnoredAlpha(TvmDefect):
    """TVM's importer drops alpha from torch.add, torch.sub and torch.rsub.

    The converter of binary operators reads the two operands alone, so that x + 2 y becomes x + y.

    Where: tvm/relax/frontend/torch/base_fx_graph_translator.py: _binary_op, _rsub
    Control: the product written out
    """

    operators = ("add", "sub", "rsub")
    inputs = {"x": torch.arange(4.0), "y": torch.ones(4)}
    concerns = staticmethod(lambda arguments: arguments.get("alpha", 1) != 1)
    broken = staticmethod(lambda x, y: torch.add(x, y, alpha=2))
    mended = staticmethod(lambda x, y: x + 2 * y)


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

    broken = staticmethod(lambda x, i, j: x[:, i, j])
    mended = staticmethod(lambda x, i, j: x.reshape(2, 12)[:, 4 * i + j])


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
    concerns = staticmethod(lambda x: TvmDefect.whole(x.get("self")) and isinstance(x.get("other"), int | float))
    broken = staticmethod(lambda x: x + 0.5)
    mended = staticmethod(lambda x: x.float() + 0.5)


class TvmIntegerDivision(TvmDefect):
    """TVM divides integers as integers: 1 / 2 is 0.

    The quotient has the dtype of the operands; PyTorch makes it a float.

    Where: tvm/relax/frontend/torch/base_fx_graph_translator.py: _binary_op of div.Tensor, relax.op.divide
    Control: the tensor cast to float before
    """

    operators = ("div",)
    inputs = {"x": torch.arange(4)}
    concerns = staticmethod(
        lambda x: not x.get("rounding_mode") and all(TvmDefect.whole(x.get(name)) for name in ("self", "other"))
    )
    broken = staticmethod(lambda x: x / 2)
    mended = staticmethod(lambda x: x.float() / 2)


class TvmLostState(TvmDefect):
    """TVM forgets what a module writes to its buffers.

    The outputs of the exported program that are new values of buffers are left out, and the buffers are constants.

    Where: tvm/relax/frontend/torch/exported_program_translator.py: from_exported_program, user_outputs
    Control: the state as an input and an output
    """

    operators = ("add", "mul", "copy", "copy_", "where", "cat", "index_put", "slice_scatter", "scatter")
    mechanism = "lost state"
    inputs = {"x": torch.ones(1)}

    def broken(self, x: Tensor) -> Tensor:
        self.total.add_(x)  # type: ignore[attr-defined]  # of the module that `module` makes
        return self.total * 1  # type: ignore[attr-defined]

    mended = staticmethod(lambda x, total: total + x)

    def module(self, mended: bool) -> nn.Module:
        module = super().module(mended)
        module.total = nn.Buffer(torch.zeros(1))
        return module

    def seen(self, inputs: Mapping[str, Tensor], mended: bool, run: Callable[..., Any] | None) -> np.ndarray:
        # what the second call gives
        assert run is not None
        states = [{"total": torch.full((1,), float(call))} if mended else {} for call in range(2)]
        return run(self.module(mended), *({**inputs, **state} for state in states))[1]

    right = staticmethod(lambda x: 2 * x)


class TvmRefusal(TvmDefect):
    """What is not compiled."""

    mechanism = ""


class TvmFullInfinity(TvmRefusal):
    """TVM cannot compile a tensor of infinities, as the mask of an attention is made of.

    topi.full looks for the word float in the dtype, which is no text any more, where the number is not finite.

    Where: tvm/topi/tensor.py: full, by tvm/relax/transform/legalize_ops/create.py: full_call_te
    Control: the logarithm of zeros
    """

    operators = ("full", "full_like", "triu", "tril")
    error = "argument of type 'PrimType' is not iterable"
    inputs = {"x": torch.ones(3, 3)}
    broken = staticmethod(lambda x: x + torch.full((3, 3), -inf).triu(1))
    mended = staticmethod(lambda x: x + torch.log(torch.zeros(3, 3)).triu(1))


class TvmIndexPut(TvmRefusal):
    """TVM cannot import x[i, j] = v where x has a third axis, nor x[:, :, i] = v.

    Relax's index_put wants an index for each axis: an axis behind the last index has none, and the places along two
    axes before it are laid along one and the same axis; index_copy, index_add and index_fill are made of it.

    Where: tvm/relax/frontend/torch/base_fx_graph_translator.py: _index_put, relax.op.index_put, arange_idx
    Control: one index into all axes laid flat
    """

    operators = ("index_put", "index_copy", "index_add", "index_fill")
    error = "IndexPut requires the number of index tensors|Cannot broadcast index shapes"
    inputs = {"x": torch.zeros(2, 3), "i": torch.tensor([1]), "y": torch.ones(1, 3)}
    broken = staticmethod(lambda x, i, y: x.index_put((i,), y))
    mended = staticmethod(
        lambda x, i, y: x.reshape(6).index_put((3 * i + torch.arange(3),), y.reshape(3)).reshape(2, 3)
    )


class TvmIntegerClamp(TvmRefusal):
    """TVM cannot compile the clamp of integers to one bound.

    The bound that is not given becomes an infinity, which no integer is; linear interpolation clamps its positions so.

    Where: tvm/relax/frontend/torch/base_fx_graph_translator.py: _clamp, math.inf
    Control: the maximum with a tensor
    """

    operators = ("clamp", "clamp_min", "clamp_max", "upsample_linear1d")
    error = "Cannot convert infinity to BigInt"
    inputs = {"x": torch.arange(-2, 3)}
    broken = staticmethod(lambda x: x.clamp(min=1))
    mended = staticmethod(lambda x: torch.maximum(x, torch.ones_like(x)))


class TvmMaskArithmetic(TvmRefusal):
    """TVM cannot compile the sum or product of two masks.

    Its code generator adds and multiplies integers and floats alone; isfinite, logaddexp and the running count of a
    mask come to the same.

    Where: src/target/llvm/codegen_llvm.cc: CreateAdd, CreateMul
    Control: logical_or
    """

    operators = ("add", "mul", "isfinite", "logaddexp", "cumsum")
    error = "MatchesCode"
    inputs = {"x": torch.linspace(-2, 2, 5)}
    broken = staticmethod(lambda x: (x > 1) + (x < -1))
    mended = staticmethod(lambda x: torch.logical_or(x > 1, x < -1))


class TvmMaskIndex(TvmRefusal):
    """TVM cannot import x[mask] = v.

    Relax's index_put takes integers alone.

    Where: tvm/relax/frontend/torch/base_fx_graph_translator.py: _index_put, relax.op.index_put
    Control: torch.where
    """

    operators = ("index_put",)
    error = "IndexPut requires each index tensor to have integer dtype"
    inputs = {"x": torch.linspace(-2, 2, 5), "y": torch.zeros(())}
    broken = staticmethod(lambda x, y: x.index_put((x < 0,), y))
    mended = staticmethod(lambda x, y: torch.where(x < 0, y, x))


class TvmNoConverter(TvmRefusal):
    """TVM has no converter for amax, amin and scatter_add.

    Nor has it for what PyTorch decomposes into amax, as logsumexp; Relax's own scatter_elements could add.

    Where: tvm/relax/frontend/torch/exported_program_translator.py: create_convert_map
    Control: max over one axis; of scatter_add index_put, which accumulates
    """

    operators = ("amax", "amin", "logsumexp", "scatter_add")
    error = r"Unsupported function types \[.*'(am(ax|in)|scatter_add)\."
    inputs = {"x": torch.arange(6.0).reshape(2, 3)}
    broken = staticmethod(lambda x: x.amax(-1))
    mended = staticmethod(lambda x: x.max(-1).values)


class TvmWholeQuotient(TvmRefusal):
    """TVM cannot import n // 2 of int64.

    The number becomes an int32, and Relax wants both operands in one dtype.

    Where: tvm/relax/frontend/torch/base_fx_graph_translator.py: _div, relax.const(inp_2)
    Control: a divisor of the same dtype
    """

    operators = ("floor_divide", "div")
    error = "Binary operators must have the same datatype"
    inputs = {"x": torch.arange(6)}
    broken = staticmethod(lambda x: x // 2)
    mended = staticmethod(lambda x: torch.div(x, torch.full_like(x, 2), rounding_mode="floor"))
