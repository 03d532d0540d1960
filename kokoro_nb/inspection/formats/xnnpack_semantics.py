"""What each node of XNNPACK computes, on what it reads as real numbers; images lie as batch, height, width, channel.

From the comments in XNNPACK's ``include/xnnpack.h`` and ExecuTorch's ``backends/xnnpack/runtime/XNNCompiler.cpp``.
"""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from torch.nn import functional as F

Given = list[Any]
Compute = Callable[[SimpleNamespace, Given], Any]
TRANSPOSED_SECOND, TRANSPOSED_FIRST, KEPT = 1, 2, 64  # flags


def _image(x: Any) -> Any:
    return x.permute(0, 3, 1, 2)


def _back(x: Any) -> Any:
    return x.permute(0, 2, 3, 1)


def _pair(table: SimpleNamespace, name: str) -> tuple[int, int]:
    return getattr(table, f"{name}_height"), getattr(table, f"{name}_width")


def _padding(table: SimpleNamespace) -> tuple[int, int]:
    top, left = table.padding_top, table.padding_left
    if (top, left) != (table.padding_bottom, table.padding_right):
        raise ValueError("a padding that is not the same on both sides is not known here")
    return top, left


def _convolution(weight: Any, table: SimpleNamespace, given: Given, transposed: bool = False) -> Any:
    x, _, bias = given
    more = _pair(table, "adjustment") if transposed else (0, 0)
    steps, apart = _pair(table, "subsampling"), _pair(table, "dilation")
    groups = table.groups
    return _back(torch.convolution(_image(x), weight, bias, steps, _padding(table), apart, transposed, more, groups))


def _transposed(table: SimpleNamespace, given: Given) -> Any:
    groups = table.groups
    out, high, wide, each = given[1].shape
    weight = given[1].reshape(groups, out // groups, high, wide, each).permute(0, 4, 1, 2, 3)
    return _convolution(weight.reshape(groups * each, out // groups, high, wide), table, given, transposed=True)


def _linear(table: SimpleNamespace, given: Given) -> Any:
    x, weight, bias = given
    return F.linear(x, weight.T if table.flags & TRANSPOSED_SECOND else weight, bias)


def _product(table: SimpleNamespace, given: Given) -> Any:
    x, y = given
    flags = table.flags
    x = x.transpose(-1, -2) if flags & TRANSPOSED_FIRST else x
    return x @ (y.transpose(-1, -2) if flags & TRANSPOSED_SECOND else y)


def _slice(table: SimpleNamespace, given: Given) -> Any:
    x = given[0]
    for axis, (start, size) in enumerate(zip(table.offsets, table.sizes, strict=True)):
        x = x.narrow(axis, start, size or x.shape[axis] - start)
    return x


def _padded(table: SimpleNamespace, given: Given) -> Any:
    ends = zip(table.pre_paddings, table.post_paddings, strict=True)
    widths = [one for pair in reversed(list(ends)) for one in pair]
    return F.pad(given[0], widths, value=table.padding_value)


def _pooled(function: Callable[..., Any], table: SimpleNamespace, given: Given, **options: Any) -> Any:
    size, steps = _pair(table, "pooling"), _pair(table, "stride")
    return _back(function(_image(given[0]), size, steps, _padding(table), **options))


def _bent(x: Any, below: Any) -> Any:
    return torch.where(x > 0, x, below)


def _plain(function: Callable[..., Any]) -> Compute:
    return lambda _, given: function(*given)


CONCATENATIONS = tuple(f"XNNConcatenate{count}" for count in (2, 3, 4, 5))
MOVING = frozenset(
    ("XNNStaticReshape", "XNNStaticTranspose", "XNNStaticSlice", "XNNCopy", "XNNStaticConstantPad", *CONCATENATIONS)
)
"""Nodes that put elements elsewhere and compute nothing."""
_PLAIN: dict[str, Any] = {
    **{"Add": torch.add, "Subtract": torch.sub, "Multiply": torch.mul, "Div": torch.div, "Minimum": torch.minimum},
    **{"Maximum": torch.maximum, "Sigmoid": torch.sigmoid, "Tanh": torch.tanh, "Floor": torch.floor},
    **{"Ceiling": torch.ceil, "Negate": torch.neg, "Abs": torch.abs, "Square": torch.square, "SquareRoot": torch.sqrt},
    **{"ReciprocalSquareRoot": torch.rsqrt, "Log": torch.log, "Exp": torch.exp, "Sin": torch.sin, "Cos": torch.cos},
    **{"Hardswish": F.hardswish, "Gelu": F.gelu},
}
KINDS: dict[str, Compute] = {
    "XNNConv2d": lambda table, given: _convolution(_image(given[1]), table, given),
    "XNNDepthwiseConv2d": lambda table, given: _convolution(given[1].permute(3, 0, 1, 2), table, given),
    "XNNConvTranspose2d": _transposed,
    "XNNFullyConnected": _linear,
    "XNNBatchMatrixMultiply": _product,
    "XNNAvgPooling2d": lambda table, given: _pooled(F.avg_pool2d, table, given, count_include_pad=False),
    "XNNMaxPooling2d": lambda table, given: _pooled(F.max_pool2d, table, given, dilation=_pair(table, "dilation")),
    "XNNGlobalAvgPooling2d": lambda table, given: given[0].mean((1, 2), keepdim=bool(table.flags & KEPT)),
    "XNNStaticReshape": lambda table, given: given[0].reshape([one or -1 for one in table.new_shape]),
    "XNNStaticTranspose": lambda table, given: given[0].permute(table.perm),
    "XNNStaticSlice": _slice,
    "XNNStaticConstantPad": _padded,
    **dict.fromkeys(CONCATENATIONS, lambda table, given: torch.cat(given, table.axis)),
    # to another type, or to limits that any node has
    **dict.fromkeys(("XNNConvert", "XNNCopy", "XNNClamp"), lambda table, given: given[0]),
    "XNNLeakyReLU": lambda table, given: _bent(given[0], given[0] * table.negative_slope),
    "XNNELU": lambda table, given: _bent(given[0], table.alpha * torch.expm1(given[0])),
    "XNNPReLU": lambda table, given: _bent(given[0], given[0] * given[1]),
    "XNNSoftmax": lambda table, given: F.softmax(given[0], dim=-1),
    **{f"XNN{kind}": _plain(one) for kind, one in _PLAIN.items()},
}
"""Nodes by their names in ``XNodeUnion``; each gets its own table and what it reads."""
