"""Operators that compute each element from the elements at its place."""

import torch
from torch import Tensor

from kokoro_nb.backends.mil.operators.registry import Site, operator, table
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
        "floor": torch.floor,
        "round": torch.round,
        "sin": torch.sin,
        "sinh": torch.sinh,
        "sqrt": torch.sqrt,
        "square": torch.square,
        "tan": torch.tan,
        "tanh": torch.tanh,
    }
)


@operator("real_div")
def real_div(site: Site, x: Tensor, y: Tensor) -> Tensor:
    """Divide floats.

    Raises
    ------
    InputError
        For integers: MIL allows them, and does not say what their quotient, an integer too, is rounded to.
    """
    if not x.is_floating_point():
        raise InputError(
            f"real_div '{site.name}' divides integers, and MIL does not say how the quotient is rounded; "
            "cast to float before, or use a floor division."
        )
    return x / y


@operator("exp2")
def exp2(site: Site, x: Tensor) -> Tensor:
    """Return 2 to the power of x; an integer power must not be negative."""
    return torch.exp2(x) if x.is_floating_point() else torch.pow(torch.full_like(x, 2), x)


@operator("sign")
def sign(site: Site, x: Tensor) -> Tensor:
    """Return -1, 0 or 1, and NaN for NaN, which torch's sign gives 0 for."""
    return torch.where(x != x, x, torch.sign(x))


@operator("inverse")
def inverse(site: Site, x: Tensor, epsilon: Tensor) -> Tensor:
    """Return 1 / (x + epsilon)."""
    return 1 / (x + epsilon)


@operator("log")
def log(site: Site, x: Tensor, epsilon: Tensor) -> Tensor:
    """Return log(x + epsilon)."""
    return torch.log(x + epsilon)


@operator("rsqrt")
def rsqrt(site: Site, x: Tensor, epsilon: Tensor) -> Tensor:
    """Return 1 / sqrt(x + epsilon)."""
    return 1 / torch.sqrt(x + epsilon)


@operator("clip")
def clip(site: Site, x: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
    """Keep x within alpha and beta; NaN stays NaN."""
    return torch.minimum(torch.maximum(x, alpha), beta)


@operator("threshold")
def threshold(site: Site, x: Tensor, alpha: Tensor) -> Tensor:
    """Return the larger of x and alpha; NaN stays NaN."""
    return torch.maximum(x, alpha)


@operator("cast")
def cast(site: Site, x: Tensor, dtype: str) -> Tensor:
    """Convert to another dtype: to an integer towards zero, to bool by whether it is not 0.

    What a float beyond the integer's range, or NaN, becomes is left open by MIL, and is here what the processor gives.
    """
    declared = site.dtypes[0]
    assert declared is not None
    if declared.is_floating_point and x.is_floating_point():
        return x  # rounded when it is kept
    return x.to(declared)


@operator("select")
def select(site: Site, cond: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Take a where cond is true, b elsewhere."""
    return torch.where(cond, a, b)


@operator("identity")
def identity(site: Site, x: Tensor) -> Tensor:
    """Return the input."""
    return x
