"""Operators that compute each element from the elements at its place."""

from collections.abc import Callable

import torch
from torch import Tensor

from kokoro_nb.backends.mil.operators.registry import OperatorSite, ints, operator, table
from kokoro_nb.errors import InputError

table(
    {
        "add": torch.add,
        "sub": torch.sub,
        "mul": torch.mul,
        "maximum": torch.maximum,
        "minimum": torch.minimum,
        "pow": torch.pow,
        "floor_div": torch.floor_divide,
        "mod": torch.remainder,
        "equal": torch.eq,
        "not_equal": torch.ne,
        "less": torch.lt,
        "less_equal": torch.le,
        "greater": torch.gt,
        "greater_equal": torch.ge,
        "logical_and": torch.logical_and,
        "logical_or": torch.logical_or,
        "logical_xor": torch.logical_xor,
        "logical_not": torch.logical_not,
        "select": lambda cond, a, b: torch.where(cond, a, b),
        "abs": torch.abs,
        "acos": torch.acos,
        "asin": torch.asin,
        "atan": torch.atan,
        "atanh": torch.atanh,
        "ceil": torch.ceil,
        "cos": torch.cos,
        "cosh": torch.cosh,
        "erf": torch.erf,
        "exp": torch.exp,
        # an integer power must not be negative
        "exp2": lambda x: torch.exp2(x) if x.is_floating_point() else torch.pow(torch.full_like(x, 2), x),
        "floor": torch.floor,
        "identity": lambda x: x,
        "inverse": lambda x, epsilon: 1 / (x + epsilon),
        "log": lambda x, epsilon: torch.log(x + epsilon),
        "round": torch.round,
        "rsqrt": lambda x, epsilon: 1 / torch.sqrt(x + epsilon),
        "sign": lambda x: torch.where(x != x, x, torch.sign(x)),  # NaN for NaN, where torch's gives 0
        "sin": torch.sin,
        "sinh": torch.sinh,
        "sqrt": torch.sqrt,
        "square": torch.square,
        "tan": torch.tan,
        "tanh": torch.tanh,
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
        raise InputError(
            f"real_div '{site.name}' divides integers, and MIL does not say how the quotient is rounded; "
            "cast to float before, or use a floor division."
        )
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


@operator("random_bernoulli")
def random_bernoulli(site: OperatorSite, shape: list[int], prob: Tensor) -> Tensor:
    """Draw 1 with this probability, else 0."""
    return (torch.rand(shape, generator=site.generator) < prob.float()).to(prob.dtype)


@operator("random_categorical")
def random_categorical(site: OperatorSite, x: Tensor, mode: str, size: int) -> Tensor:
    """Draw places along the last axis, with replacement, by their probabilities or the logarithms of these."""
    weights = x.double() if mode == "probs" else torch.softmax(x.double(), dim=-1)
    drawn = torch.multinomial(weights.reshape(-1, x.shape[-1]), size, replacement=True, generator=site.generator)
    return drawn.reshape(*x.shape[:-1], size).to(x.dtype)
