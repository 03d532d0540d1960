"""What each node of XNNPACK computes, on what it reads as real numbers; images lie as batch, height, width, channel.

From the comments in XNNPACK's ``include/xnnpack.h`` and ExecuTorch's ``backends/xnnpack/runtime/XNNCompiler.cpp``.
"""

from collections.abc import Callable
from typing import Any

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
    import torch

    x, _, bias = given
    more = _pair(table, "adjustment") if transposed else (0, 0)
    steps, apart = _pair(table, "subsampling"), _pair(table, "dilation")
    groups = table.get("groups")
    return _back(torch.convolution(_image(x), weight, bias, steps, _padding(table), apart, transposed, more, groups))


def _conv(table: FlatTable, given: Given) -> Any:
    return _convolution(_image(given[1]), table, given)


def _by_channel(table: FlatTable, given: Given) -> Any:
    return _convolution(given[1].permute(3, 0, 1, 2), table, given)


def _transposed(table: FlatTable, given: Given) -> Any:
    groups = table.get("groups")
    out, high, wide, each = given[1].shape
    weight = given[1].reshape(groups, out // groups, high, wide, each).permute(0, 4, 1, 2, 3)
    return _convolution(weight.reshape(groups * each, out // groups, high, wide), table, given, transposed=True)


def _linear(table: FlatTable, given: Given) -> Any:
    import torch

    x, weight, bias = given
    return torch.nn.functional.linear(x, weight.T if table.get("flags") & TRANSPOSED_SECOND else weight, bias)


def _product(table: FlatTable, given: Given) -> Any:
    x, y = given
    flags = table.get("flags")
    x = x.transpose(-1, -2) if flags & TRANSPOSED_FIRST else x
    return x @ (y.transpose(-1, -2) if flags & TRANSPOSED_SECOND else y)


def _pooled(kind: str) -> Compute:
    def compute(table: FlatTable, given: Given) -> Any:
        import torch

        size, steps = _pair(table, "pooling"), _pair(table, "stride")
        if kind == "mean":
            function = torch.nn.functional.avg_pool2d
            return _back(function(_image(given[0]), size, steps, _padding(table), count_include_pad=False))
        largest = torch.nn.functional.max_pool2d
        return _back(largest(_image(given[0]), size, steps, _padding(table), _pair(table, "dilation")))

    return compute


def _mean(table: FlatTable, given: Given) -> Any:
    return given[0].mean((1, 2), keepdim=bool(table.get("flags") & KEPT))


def _reshaped(table: FlatTable, given: Given) -> Any:
    return given[0].reshape([one or -1 for one in table.get("new_shape", [])])  # 0: what is left over


def _slice(table: FlatTable, given: Given) -> Any:
    x = given[0]
    for axis, (start, size) in enumerate(zip(table.get("offsets", []), table.get("sizes", []), strict=True)):
        x = x.narrow(axis, start, size or x.shape[axis] - start)
    return x


def _padded(table: FlatTable, given: Given) -> Any:
    import torch

    ends = zip(table.get("pre_paddings", []), table.get("post_paddings", []), strict=True)
    widths = [one for pair in reversed(list(ends)) for one in pair]
    return torch.nn.functional.pad(given[0], widths, value=table.get("padding_value", 0.0))


def _joined(table: FlatTable, given: Given) -> Any:
    import torch

    return torch.cat(given, table.get("axis"))


def _leaky(table: FlatTable, given: Given) -> Any:
    import torch

    return torch.where(given[0] > 0, given[0], given[0] * table.get("negative_slope", 0.0))


def _elu(table: FlatTable, given: Given) -> Any:
    import torch

    return torch.where(given[0] > 0, given[0], table.get("alpha", 0.0) * torch.expm1(given[0]))


def _sloped(_table: FlatTable, given: Given) -> Any:
    import torch

    return torch.where(given[0] > 0, given[0], given[0] * given[1])


def _plain(name: str) -> Compute:
    """Return a function of `torch` by its name."""

    def compute(_table: FlatTable, given: Given) -> Any:
        import torch

        return getattr(torch, name)(*given)

    return compute


def _same(_table: FlatTable, given: Given) -> Any:
    return given[0]


def _of_functional(name: str, **options: Any) -> Compute:
    def compute(_table: FlatTable, given: Given) -> Any:
        import torch

        return getattr(torch.nn.functional, name)(given[0], **options)

    return compute


MOVING = frozenset(
    (
        *("XNNStaticReshape", "XNNStaticTranspose", "XNNStaticSlice", "XNNCopy", "XNNStaticConstantPad"),
        *("XNNConcatenate2", "XNNConcatenate3", "XNNConcatenate4", "XNNConcatenate5"),
    )
)
"""Nodes that put elements elsewhere and compute nothing."""
KINDS: dict[str, Compute] = {
    "XNNConv2d": _conv,
    "XNNDepthwiseConv2d": _by_channel,
    "XNNConvTranspose2d": _transposed,
    "XNNFullyConnected": _linear,
    "XNNBatchMatrixMultiply": _product,
    "XNNAvgPooling2d": _pooled("mean"),
    "XNNMaxPooling2d": _pooled("max"),
    "XNNGlobalAvgPooling2d": _mean,
    "XNNStaticReshape": _reshaped,
    "XNNStaticTranspose": lambda table, given: given[0].permute(table.get("perm", [])),
    "XNNStaticSlice": _slice,
    "XNNStaticConstantPad": _padded,
    **dict.fromkeys(("XNNConcatenate2", "XNNConcatenate3", "XNNConcatenate4", "XNNConcatenate5"), _joined),
    **dict.fromkeys(("XNNConvert", "XNNCopy", "XNNClamp"), _same),  # to another type, or to limits that any node has
    "XNNLeakyReLU": _leaky,
    "XNNELU": _elu,
    "XNNPReLU": _sloped,
    "XNNHardswish": _of_functional("hardswish"),
    "XNNGelu": _of_functional("gelu"),
    "XNNSoftmax": _of_functional("softmax", dim=-1),
    "XNNAdd": _plain("add"),
    "XNNSubtract": _plain("sub"),
    "XNNMultiply": _plain("mul"),
    "XNNDiv": _plain("div"),
    "XNNMinimum": _plain("minimum"),
    "XNNMaximum": _plain("maximum"),
    "XNNSigmoid": _plain("sigmoid"),
    "XNNTanh": _plain("tanh"),
    "XNNFloor": _plain("floor"),
    "XNNCeiling": _plain("ceil"),
    "XNNNegate": _plain("neg"),
    "XNNAbs": _plain("abs"),
    "XNNSquare": _plain("square"),
    "XNNSquareRoot": _plain("sqrt"),
    "XNNReciprocalSquareRoot": _plain("rsqrt"),
    "XNNLog": _plain("log"),
    "XNNExp": _plain("exp"),
    "XNNSin": _plain("sin"),
    "XNNCos": _plain("cos"),
}
"""Nodes by their names in ``XNodeUnion``; each gets its own table and what it reads."""
