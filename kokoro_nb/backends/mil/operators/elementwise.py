"""Operators that compute each element from those at its place, multiply matrices, quantise, or decompress weights."""

import math
from collections.abc import Callable
from inspect import signature

import torch
from torch import Tensor

from kokoro_nb.backends.coreml.coreml_private import decompression
from kokoro_nb.backends.mil import accumulation
from kokoro_nb.backends.mil.operators.registry import OperatorSite, ints, operator, table
from kokoro_nb.errors import InputError

SAME = (  # what torch calls by the same names
    *("add", "sub", "mul", "maximum", "minimum", "pow", "square", "sqrt", "exp", "erf"),
    *("abs", "ceil", "floor", "round", "not_equal", "less", "less_equal", "greater", "greater_equal"),
    *("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "atanh"),
    *("logical_and", "logical_or", "logical_xor", "logical_not"),
)
table({name: getattr(torch, name) for name in SAME})
table(
    {
        "floor_div": torch.floor_divide,
        "mod": torch.remainder,
        "equal": torch.eq,
        "select": lambda cond, a, b: torch.where(cond, a, b),
        # an integer power must not be negative
        "exp2": lambda x: torch.exp2(x) if x.is_floating_point() else torch.pow(torch.full_like(x, 2), x),
        "identity": lambda x: x,
        "inverse": lambda x, epsilon: 1 / (x + epsilon),
        "log": lambda x, epsilon: torch.log(x + epsilon),
        "rsqrt": lambda x, epsilon: 1 / torch.sqrt(x + epsilon),
        "sign": lambda x: torch.where(x != x, x, torch.sign(x)),  # NaN for NaN, where torch's gives 0
        # torch's numbers, from the seed that the file gives, and so not those that Core ML draws from it
        "random_uniform": lambda site, shape, low, high: low + (high - low) * _drawn(torch.rand, site, shape, low),
        "random_normal": lambda site, shape, mean, stddev: mean + stddev * _drawn(torch.randn, site, shape, mean),
        # in both of these NaN stays NaN
        "clip": lambda x, alpha, beta: torch.minimum(torch.maximum(x, alpha), beta),
        "threshold": lambda x, alpha: torch.maximum(x, alpha),
    }
)


def _drawn(draw: Callable[..., Tensor], site: OperatorSite, shape: Tensor, like: Tensor) -> Tensor:
    return draw(ints(shape), generator=site.generator).to(like.dtype)


@operator("real_div")
def real_div(site: OperatorSite, x: Tensor, y: Tensor) -> Tensor:
    """Divide.

    Raises
    ------
    InputError
        For integers with a remainder: MIL does not say what their quotient, an integer too, is rounded to.
    """
    if not x.is_floating_point():
        if (y != 0).all() and not (x % y).any():  # how often a size is repeated, where coremltools expands it
            return x // y
        what = "divides integers, and MIL does not say how the quotient is rounded"
        raise InputError(f"real_div '{site.name}' {what}; cast to float before, or use a floor division.")
    return x / y


@operator("cast")
def cast(site: OperatorSite, x: Tensor) -> Tensor:
    """Convert to another dtype: to an integer towards zero, to bool by whether it is not 0.

    What a float beyond the integer's range, or NaN, becomes is left open by MIL, and is here what the processor gives.
    """
    (declared,) = site.dtypes
    assert declared is not None
    if declared.is_floating_point and x.is_floating_point():
        return x  # rounded when it is stored
    return x.to(declared)


@operator("random_categorical")
def random_categorical(site: OperatorSite, x: Tensor, mode: str, size: int) -> Tensor:
    """Draw places along the last axis, with replacement, by their probabilities or the logarithms of these."""
    weights = x.double() if mode == "probs" else torch.softmax(x.double(), dim=-1)
    drawn = torch.multinomial(weights.reshape(-1, x.shape[-1]), size, replacement=True, generator=site.generator)
    return drawn.reshape(*x.shape[:-1], size).to(x.dtype)


def logistic(x: Tensor) -> Tensor:
    """Return 1 / (1 + exp(-x))."""
    return 1 / (1 + torch.exp(-x))


def positive(x: Tensor) -> Tensor:
    """Return the larger of x and 0; NaN stays NaN."""
    return torch.clamp(x, min=0)


def biased(x: Tensor, bias: Tensor | None) -> Tensor:
    """Return x plus the bias, if there is one."""
    return x if bias is None else x + bias.to(x.dtype)


@operator("softmax")
def softmax(x: Tensor, axis: int) -> Tensor:
    """Return exp(x - max) divided by its sum along the axis."""
    raised = torch.exp(x - torch.amax(x, dim=axis, keepdim=True))
    return raised / accumulation.total(raised, [axis], keep=True)


@operator("softplus")
def softplus(x: Tensor) -> Tensor:
    """Return log(1 + exp(x)), without overflow."""
    return torch.log1p(torch.exp(-torch.abs(x))) + positive(x)


@operator("gelu")
def gelu(x: Tensor, mode: str) -> Tensor:
    """Return x times the normal distribution's cumulative, exact or by its approximation with tanh or sigmoid."""
    if mode == "TANH_APPROXIMATION":
        return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * (x * x * x))))
    if mode == "SIGMOID_APPROXIMATION":
        return x * logistic(1.702 * x)
    return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))


def _along(parameter: Tensor, x: Tensor, axis: int | None = 1) -> Tensor:
    """Return a scalar as it is, and a vector with its elements along `axis` of `x`: by channel, if not told."""
    if not parameter.ndim or axis is None:
        return parameter
    return parameter.reshape(-1, *[1] * (x.ndim - 1 - axis % x.ndim))


table(
    {
        "sigmoid": logistic,
        "silu": lambda x: x * logistic(x),
        "relu": positive,
        "relu6": lambda x: torch.clamp(x, 0, 6),
        "leaky_relu": lambda x, alpha: torch.where(x < 0, x * alpha, x),
        "prelu": lambda x, alpha: torch.where(x < 0, x * _along(alpha, x), x),
        "thresholded_relu": lambda x, alpha: torch.where(x < alpha, torch.zeros_like(x), x),
        "elu": lambda x, alpha: torch.where(x < 0, alpha * (torch.exp(x) - 1), x),
        "linear_activation": lambda x, alpha, beta: alpha * x + beta,
        "sigmoid_hard": lambda x, alpha, beta: torch.clamp(alpha * x + beta, 0, 1),
        "softplus_parametric": lambda x, alpha, beta: _along(alpha, x) * softplus(x * _along(beta, x)),
        "softsign": lambda x: x / (1 + torch.abs(x)),
    }
)


@operator("matmul")
def matmul(x: Tensor, y: Tensor, transpose_x: bool, transpose_y: bool) -> Tensor:
    """Multiply matrices, as NumPy broadcasts them, the last two axes of either exchanged first if requested."""
    x = x.transpose(-1, -2) if transpose_x and x.ndim > 1 else x
    y = y.transpose(-1, -2) if transpose_y and y.ndim > 1 else y
    return accumulation.matmul(x, y)


@operator("linear")
def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return x times the transposed weight; the bias is added last."""
    return biased(accumulation.matmul(x, weight.to(x.dtype).transpose(0, 1)), bias)


@operator("einsum")
def einsum(site: OperatorSite, values: list[Tensor], equation: str) -> Tensor:
    """Multiply ``[..., c, h, w]`` with ``[..., w, h, u]`` to ``[..., c, h, u]``: the one sum that MIL has.

    Raises
    ------
    InputError
        For another equation.
    """
    letters = {letter: "abcdefgh"[i] for i, letter in enumerate(dict.fromkeys(c for c in equation if c.isalpha()))}
    plain = "".join(letters.get(letter, letter) for letter in equation.replace(" ", ""))
    if plain not in ("abcd,adce->abce", "abc,cbd->abd"):
        known = f"the equation {equation}, and MIL knows nchw,nwhu->nchu and chw,whr->chr alone"
        raise InputError(f"einsum '{site.name}' has {known}; write the product with matmul.")
    x, y = (value.transpose(-2, -3) for value in values)
    return accumulation.matmul(x, y).transpose(-2, -3)


@operator("scaled_dot_product_attention")
def scaled_dot_product_attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None) -> Tensor:
    """Return softmax(query key' / sqrt(width) + mask) value; where a mask of truth values is false, it is -inf."""
    scores = accumulation.matmul(query, key.transpose(-1, -2)) / math.sqrt(query.shape[-1])
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        scores = torch.where(attn_mask, scores, -torch.inf)
    elif attn_mask is not None:
        scores = scores + attn_mask.to(scores.dtype)
    return accumulation.matmul(softmax(scores, -1), value)


@operator("quantize")
def quantize(
    site: OperatorSite, input: Tensor, scale: Tensor, zero_point: Tensor | None = None, axis: int | None = None
) -> Tensor:
    """Return round(input / scale) + zero point, clamped to the range of the integers."""
    (declared,) = site.dtypes
    assert declared is not None
    steps = torch.round(input / _along(scale, input, axis))
    if zero_point is not None:
        steps = steps + _along(zero_point.to(steps.dtype), input, axis)
    bounds = torch.iinfo(declared)
    return steps.clamp(bounds.min, bounds.max).to(declared)


@operator("dequantize")
def dequantize(input: Tensor, scale: Tensor, zero_point: Tensor | None = None, axis: int | None = None) -> Tensor:
    """Return scale (input - zero point), both by place along an axis or one for all."""
    x, factor = input.to(scale.dtype), _along(scale, input, axis)
    return x * factor if zero_point is None else (x - _along(zero_point.to(scale.dtype), x, axis)) * factor


@operator(
    *("constexpr_blockwise_shift_scale", "constexpr_sparse_blockwise_shift_scale", "constexpr_sparse_to_dense"),
    *("constexpr_lut_to_dense", "constexpr_lut_to_sparse"),
)
def decompressed(site: OperatorSite, **inputs: Tensor) -> Tensor | tuple[Tensor, ...]:
    """Return what coremltools makes of a compressed weight, in the precision of its table or of its scale."""
    function = decompression(site.type, site.opset)
    given = {name: inputs[name].numpy() if name in inputs else None for name in signature(function).parameters}
    found = function(**given)
    return tuple(map(torch.from_numpy, found)) if isinstance(found, tuple) else torch.from_numpy(found)


table(
    {
        "constexpr_cast": lambda source_val: source_val.float(),  # a float16 weight, to be stored as float32
        "constexpr_affine_dequantize": lambda quantized_data, zero_point, scale, axis: dequantize(
            quantized_data, scale, zero_point, int(axis)
        ),
    }
)
