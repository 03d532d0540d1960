"""What each node of XNNPACK computes, on what it reads as real numbers; images lie as batch, height, width, channel.

From the comments in XNNPACK's ``include/xnnpack.h`` and ExecuTorch's ``backends/xnnpack/runtime/XNNCompiler.cpp``.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F

from kokoro_nb.inspection.formats.flatbuffer_tables import FlatTable

Given = list[Any]
Compute = Callable[[FlatTable, Given], Any]
TRANSPOSED_SECOND, TRANSPOSED_FIRST, KEPT = 1, 2, 64  # flags


def _image(x: Any) -> Any:
    return x.permute(0, 3, 1, 2)


def _back(x: Any) -> Any:
    return x.permute(0, 2, 3, 1)


def _pair(table: FlatTable, name: str) -> tuple[int, int]:
    return table.get(f"{name}_height"), table.get(f"{name}_width")


def _padding(table: FlatTable) -> tuple[int, int]:
    top, left = table.get("padding_top"), table.get("padding_left")
    if (top, left) != (table.get("padding_bottom"), table.get("padding_right")):
        raise ValueError("a padding that is not the same on both sides is not known here")
    return top, left


def _convolution(weight: Any, table: FlatTable, given: Given, transposed: bool = False) -> Any:
    x, _, bias = given
    more = _pair(table, "adjustment") if transposed else (0, 0)
    steps, apart = _pair(table, "subsampling"), _pair(table, "dilation")
    groups = table.get("groups")
    return _back(torch.convolution(_image(x), weight, bias, steps, _padding(table), apart, transposed, more, groups))


def _transposed(table: FlatTable, given: Given) -> Any:
    groups = table.get("groups")
    out, high, wide, each = given[1].shape
    weight = given[1].reshape(groups, out // groups, high, wide, each).permute(0, 4, 1, 2, 3)
    return _convolution(weight.reshape(groups * each, out // groups, high, wide), table, given, transposed=True)


def _linear(table: FlatTable, given: Given) -> Any:
    x, weight, bias = given
    return F.linear(x, weight.T if table.get("flags") & TRANSPOSED_SECOND else weight, bias)


def _product(table: FlatTable, given: Given) -> Any:
    x, y = given
    flags = table.get("flags")
    x = x.transpose(-1, -2) if flags & TRANSPOSED_FIRST else x
    return x @ (y.transpose(-1, -2) if flags & TRANSPOSED_SECOND else y)


def _slice(table: FlatTable, given: Given) -> Any:
    x = given[0]
    for axis, (start, size) in enumerate(zip(table.get("offsets", []), table.get("sizes", []), strict=True)):
        x = x.narrow(axis, start, size or x.shape[axis] - start)
    return x


def _padded(table: FlatTable, given: Given) -> Any:
    ends = zip(table.get("pre_paddings", []), table.get("post_paddings", []), strict=True)
    widths = [one for pair in reversed(list(ends)) for one in pair]
    return F.pad(given[0], widths, value=table.get("padding_value", 0.0))


def _pooled(function: Callable[..., Any], table: FlatTable, given: Given, **options: Any) -> Any:
    size, steps = _pair(table, "pooling"), _pair(table, "stride")
    return _back(function(_image(given[0]), size, steps, _padding(table), **options))


def _bent(x: Any, below: Any) -> Any:
    return torch.where(x > 0, x, below)


def _of_torch(name: str) -> Compute:
    function = getattr(torch, name)
    return lambda _, given: function(*given)


CONCATENATIONS = tuple(f"XNNConcatenate{count}" for count in (2, 3, 4, 5))
MOVING = frozenset(
    ("XNNStaticReshape", "XNNStaticTranspose", "XNNStaticSlice", "XNNCopy", "XNNStaticConstantPad", *CONCATENATIONS)
)
"""Nodes that put elements elsewhere and compute nothing."""
_PLAIN = {
    **{"Add": "add", "Subtract": "sub", "Multiply": "mul", "Div": "div", "Minimum": "minimum", "Maximum": "maximum"},
    **{"Sigmoid": "sigmoid", "Tanh": "tanh", "Floor": "floor", "Ceiling": "ceil", "Negate": "neg", "Abs": "abs"},
    **{"Square": "square", "SquareRoot": "sqrt", "ReciprocalSquareRoot": "rsqrt", "Log": "log", "Exp": "exp"},
    **{"Sin": "sin", "Cos": "cos"},
}
KINDS: dict[str, Compute] = {
    "XNNConv2d": lambda table, given: _convolution(_image(given[1]), table, given),
    "XNNDepthwiseConv2d": lambda table, given: _convolution(given[1].permute(3, 0, 1, 2), table, given),
    "XNNConvTranspose2d": _transposed,
    "XNNFullyConnected": _linear,
    "XNNBatchMatrixMultiply": _product,
    "XNNAvgPooling2d": lambda table, given: _pooled(F.avg_pool2d, table, given, count_include_pad=False),
    "XNNMaxPooling2d": lambda table, given: _pooled(F.max_pool2d, table, given, dilation=_pair(table, "dilation")),
    "XNNGlobalAvgPooling2d": lambda table, given: given[0].mean((1, 2), keepdim=bool(table.get("flags") & KEPT)),
    "XNNStaticReshape": lambda table, given: given[0].reshape([one or -1 for one in table.get("new_shape", [])]),
    "XNNStaticTranspose": lambda table, given: given[0].permute(table.get("perm", [])),
    "XNNStaticSlice": _slice,
    "XNNStaticConstantPad": _padded,
    **dict.fromkeys(CONCATENATIONS, lambda table, given: torch.cat(given, table.get("axis"))),
    # to another type, or to limits that any node has
    **dict.fromkeys(("XNNConvert", "XNNCopy", "XNNClamp"), lambda table, given: given[0]),
    "XNNLeakyReLU": lambda table, given: _bent(given[0], given[0] * table.get("negative_slope", 0.0)),
    "XNNELU": lambda table, given: _bent(given[0], table.get("alpha", 0.0) * torch.expm1(given[0])),
    "XNNPReLU": lambda table, given: _bent(given[0], given[0] * given[1]),
    "XNNHardswish": lambda table, given: F.hardswish(given[0]),
    "XNNGelu": lambda table, given: F.gelu(given[0]),
    "XNNSoftmax": lambda table, given: F.softmax(given[0], dim=-1),
    **{f"XNN{kind}": _of_torch(name) for kind, name in _PLAIN.items()},
}
"""Nodes by their names in ``XNodeUnion``; each gets its own table and what it reads."""
