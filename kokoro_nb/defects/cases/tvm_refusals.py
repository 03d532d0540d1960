"""What TVM's importer refuses, or its compiler fails on."""

from math import inf

import torch
from torch import Tensor

from kokoro_nb.defects.cases.tvm_defects import TvmDefect


class TvmRefusal(TvmDefect):
    """What is not compiled."""

    mechanism = ""


class TvmAmax(TvmRefusal):
    """TVM has no converter for amax and amin.

    Nor has it for what PyTorch decomposes into them, as logsumexp, nor for any without an axis.

    Where: tvm/relax/frontend/torch/exported_program_translator.py: create_convert_map
    Control: max over one axis
    """

    operators = ("amax", "amin", "logsumexp")
    error = r"Unsupported function types \[.*'am(ax|in)\."
    inputs = {"x": torch.arange(6.0).reshape(2, 3)}

    def broken(self, x: Tensor) -> Tensor:
        return x.amax(-1)

    def mended(self, x: Tensor) -> Tensor:
        return x.max(-1).values


class TvmFullInfinity(TvmRefusal):
    """TVM cannot compile a tensor of infinities, as the mask of an attention is made of.

    topi.full looks for the word float in the dtype, which is no text any more, where the number is not finite.

    Where: tvm/topi/tensor.py: full, by tvm/relax/transform/legalize_ops/create.py: full_call_te
    Control: the logarithm of zeros
    """

    operators = ("full", "full_like", "triu", "tril")
    error = "argument of type 'PrimType' is not iterable"
    inputs = {"x": torch.ones(3, 3)}

    def broken(self, x: Tensor) -> Tensor:
        return x + torch.full((3, 3), -inf).triu(1)

    def mended(self, x: Tensor) -> Tensor:
        return x + torch.log(torch.zeros(3, 3)).triu(1)


class TvmIndexPut(TvmRefusal):
    """TVM cannot import x[i, j] = v where x has a third axis.

    Relax's index_put wants an index for each axis, and the axes behind the last index have none; index_copy and
    index_add are made of it.

    Where: tvm/relax/frontend/torch/base_fx_graph_translator.py: _index_put, relax.op.index_put
    Control: one index into all axes laid flat
    """

    operators: tuple[str, ...] = ("index_put", "index_copy", "index_add", "index_fill")
    error = "IndexPut requires the number of index tensors"
    inputs = {"x": torch.zeros(2, 3), "i": torch.tensor([1]), "y": torch.ones(1, 3)}

    def broken(self, x: Tensor, i: Tensor, y: Tensor) -> Tensor:
        return x.index_put((i,), y)

    def mended(self, x: Tensor, i: Tensor, y: Tensor) -> Tensor:
        places = 3 * i[:, None] + torch.arange(3)
        return x.reshape(6).index_put((places.reshape(3),), y.reshape(3)).reshape(2, 3)


class TvmIndexPutGaps(TvmRefusal):
    """TVM cannot import x[:, :, i] = v.

    The places along the two axes without an index are laid along one and the same axis.

    Where: tvm/relax/frontend/torch/base_fx_graph_translator.py: _index_put, arange_idx
    Control: one index into all axes laid flat
    """

    operators: tuple[str, ...] = ("index_put", "index_copy", "index_add", "index_fill")
    error = "Cannot broadcast index shapes"
    inputs = {"x": torch.zeros(2, 3, 2), "i": torch.tensor([1])}

    def broken(self, x: Tensor, i: Tensor) -> Tensor:
        return x.index_fill(2, i, 3.0)

    def mended(self, x: Tensor, i: Tensor) -> Tensor:
        places = 2 * torch.arange(6) + i
        return x.reshape(12).index_put((places,), torch.full((6,), 3.0)).reshape(2, 3, 2)


class TvmIntegerClamp(TvmRefusal):
    """TVM cannot compile the clamp of integers to one bound.

    The bound that is not given becomes an infinity, which no integer is; linear interpolation clamps its positions so.

    Where: tvm/relax/frontend/torch/base_fx_graph_translator.py: _clamp, math.inf
    Control: the maximum with a tensor
    """

    operators = ("clamp", "clamp_min", "clamp_max", "upsample_linear1d")
    error = "Cannot convert infinity to BigInt"
    inputs = {"x": torch.arange(-2, 3)}

    def broken(self, x: Tensor) -> Tensor:
        return x.clamp(min=1)

    def mended(self, x: Tensor) -> Tensor:
        return torch.maximum(x, torch.ones_like(x))


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

    def broken(self, x: Tensor) -> Tensor:
        return (x > 1) + (x < -1)

    def mended(self, x: Tensor) -> Tensor:
        return torch.logical_or(x > 1, x < -1)


class TvmMaskIndex(TvmRefusal):
    """TVM cannot import x[mask] = v.

    Relax's index_put takes integers alone.

    Where: tvm/relax/frontend/torch/base_fx_graph_translator.py: _index_put, relax.op.index_put
    Control: torch.where
    """

    operators = ("index_put",)
    error = "IndexPut requires each index tensor to have integer dtype"
    inputs = {"x": torch.linspace(-2, 2, 5), "y": torch.zeros(())}

    def broken(self, x: Tensor, y: Tensor) -> Tensor:
        return x.index_put((x < 0,), y)

    def mended(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.where(x < 0, y, x)


class TvmScatterAdd(TvmRefusal):
    """TVM has no converter for scatter_add.

    Relax's own scatter_elements could add.

    Where: tvm/relax/frontend/torch/exported_program_translator.py: create_convert_map
    Control: index_put, which accumulates
    """

    operators = ("scatter_add",)
    error = r"Unsupported function types \[.*'scatter_add\."
    inputs = {"x": torch.zeros(4), "i": torch.tensor([1, 1, 3]), "y": torch.ones(3)}

    def broken(self, x: Tensor, i: Tensor, y: Tensor) -> Tensor:
        return x.scatter_add(0, i, y)

    def mended(self, x: Tensor, i: Tensor, y: Tensor) -> Tensor:
        return x.index_put((i,), y, accumulate=True)


class TvmScatterPart(TvmRefusal):
    """TVM cannot import a scatter of part of its source.

    Relax's scatter_elements wants the source in the shape of the index; PyTorch leaves the rest of it unread.

    Where: tvm/relax/frontend/torch/base_fx_graph_translator.py: _scatter, relax.op.scatter_elements
    Control: the part that is read
    """

    operators = ("scatter",)
    error = "ScatterElements op requires the indices tensor to have the same shape"
    inputs = {"x": torch.zeros(4), "i": torch.tensor([1, 3]), "y": torch.ones(4)}

    def broken(self, x: Tensor, i: Tensor, y: Tensor) -> Tensor:
        return x.scatter(0, i, y)

    def mended(self, x: Tensor, i: Tensor, y: Tensor) -> Tensor:
        return x.scatter(0, i, y[:2])


class TvmWholeQuotient(TvmRefusal):
    """TVM cannot import n // 2 of int64.

    The number becomes an int32, and Relax wants both operands in one dtype.

    Where: tvm/relax/frontend/torch/base_fx_graph_translator.py: _div, relax.const(inp_2)
    Control: a divisor of the same dtype
    """

    operators = ("floor_divide", "div")
    error = "Binary operators must have the same datatype"
    inputs = {"x": torch.arange(6)}

    def broken(self, x: Tensor) -> Tensor:
        return x // 2

    def mended(self, x: Tensor) -> Tensor:
        return torch.div(x, torch.full_like(x, 2), rounding_mode="floor")
