"""Operators by family, whatever a runtime calls them: PyTorch's, ONNX's, ExecuTorch's, XNNPACK's and TVM's names."""

import re
from collections.abc import Mapping, Sequence

CONV, STFT, LSTM, MATMUL, NORM, ELEMENTWISE, LAYOUT, OTHER = (
    *("convolution", "STFT", "LSTM", "matrix product"),
    *("means and norms", "elementwise", "layout and copies", "other"),
)
FAMILIES = (CONV, STFT, LSTM, MATMUL, NORM, ELEMENTWISE, LAYOUT, OTHER)

# A function that joins several operators belongs to the first of these families that one of its words names.
_WORDS: Mapping[str, frozenset[str]] = {
    CONV: frozenset(("conv", "convolution", "deconvolution", "fusedconv", "igemm", "dwconv")),
    STFT: frozenset(("stft", "istft", "fft", "unfold")),
    LSTM: frozenset(("lstm", "rnn", "gru")),
    MATMUL: frozenset(
        ("matmul", "mm", "addmm", "bmm", "baddbmm", "linear", "gemm", "fusedgemm", "fusedmatmul", "fully", "dense")
    ),
    NORM: frozenset(
        ("mean", "var", "variance", "sum", "norm", "instancenorm", "batchnorm", "normalization", "rsqrt", "reduce")
    ),
    ELEMENTWISE: frozenset(
        (
            *("add", "sub", "subtract", "mul", "multiply", "div", "divide", "neg", "negate", "negative", "abs", "pow"),
            *("power", "square", "sqrt", "reciprocal", "exp", "log", "sin", "cos", "sine", "cosine", "tanh", "atan"),
            *("sigmoid", "relu", "leakyrelu", "leaky", "gelu", "prelu", "clamp", "clip", "floor", "remainder", "mod"),
            *("where", "eq", "equal", "lt", "less", "gt", "greater", "le", "ge", "not", "and", "or", "fill"),
            *("maximum", "minimum", "max", "min", "elementwise", "binary", "unary", "vmulcaddc", "isnan", "sign"),
            *("logical", "softmax", "cumsum", "erf", "biasgelu", "quickgelu", "softplus", "round"),
        )
    ),
    LAYOUT: frozenset(
        (
            *("copy", "clone", "contiguous", "view", "select", "reshape", "transpose", "permute", "cat", "concat"),
            *("concatenate", "split", "chunk", "slice", "narrow", "expand", "tile", "repeat", "pad", "constant"),
            *("unsqueeze", "squeeze", "flatten", "cast", "convert", "resize", "upsample", "nearest", "interpolate"),
            *("gather", "take", "index", "as", "strided", "t", "empty", "alloc", "allocate", "reorder", "layout"),
            *("dim", "order", "identity", "flip", "stack", "resolve", "lift", "detach", "to", "zeros", "ones", "full"),
        )
    ),
}


def family(name: str, kernel: Sequence[int] = ()) -> str:
    """Return the family of an operator.

    Parameters
    ----------
    name : str
        As a runtime calls it; of several joined ones, all their names.
    kernel : sequence of int
        Shape of its kernel, if it is a convolution and the runtime reports it: that of an STFT has one input channel,
        and for n samples n / 2 + 1 bins.

    Examples
    --------
    >>> family("aten::mkldnn_convolution"), family("MatMul"), family("fused_subtract1_multiply2_mean")
    ('convolution', 'matrix product', 'means and norms')
    >>> family("Conv", (11, 1, 20)), family("Conv", (128, 1, 3)), family("native_call_native_dropout.out")
    ('STFT', 'convolution', 'other')
    """
    # ConvTranspose is also Conv and Transpose; MatMul is one word too
    words = {word.lower() for form in ("[A-Za-z]+", "[A-Z]?[a-z]+|[A-Z]+") for word in re.findall(form, name)}
    found = next((each for each, known in _WORDS.items() if known & words), OTHER)
    return STFT if found == CONV and is_stft(kernel) else found


def is_stft(kernel: Sequence[int]) -> bool:
    """Return whether a convolution's kernel is that of an STFT, (bins, 1, 2 * (bins - 1)) with any ones between."""
    if len(kernel) < 3:
        return False
    bins, *between, samples = kernel
    return samples == 2 * (bins - 1) and all(size == 1 for size in between)


def shares(seconds: Mapping[str, float]) -> dict[str, float]:
    """Return the share of each family in the sum, largest first; nothing for no time at all.

    >>> shares({"convolution": 3.0, "other": 1.0})
    {'convolution': 0.75, 'other': 0.25}
    """
    total = sum(seconds.values())
    ordered = sorted(seconds.items(), key=lambda item: -item[1])
    return {name: each / total for name, each in ordered} if total else {}
