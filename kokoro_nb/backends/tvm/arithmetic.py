"""Arithmetic as PyTorch does it, where Relax's operators of the same name do it otherwise."""

from collections.abc import Callable, Sequence
from typing import Any

_NAMES = {"float32": "fmodf", "float64": "fmod"}  # of the C library


def elementwise(function: Callable[..., Any], shape: Sequence[int]) -> Callable[..., Any]:
    """Return the tensor expression of `function` over operands that are broadcast to `shape`.

    Parameters
    ----------
    function : callable
        Of one scalar expression per operand.
    shape : sequence of int
        Of the result.
    """

    def compute(*operands: Any) -> Any:
        from tvm import te, topi

        wide = [topi.broadcast_to(operand, tuple(shape)) for operand in operands]
        return te.compute(tuple(shape), lambda *i: function(*(operand(*i) for operand in wide)), name="elementwise")

    return compute


def remainder(a: Any, b: Any) -> Any:
    """Return `torch.remainder` of two floats: the sign of the divisor."""
    from tvm import tirx

    rest = _fmod(a, b)
    return tirx.Select(_apart(rest, b), rest + b, rest)


def floor_divide(a: Any, b: Any) -> Any:
    """Return ``torch.div(a, b, rounding_mode="floor")`` of two floats, as `c10::div_floor_floating` computes it."""
    from tvm import tirx

    zero, one, half = (tirx.const(value, a.ty.dtype) for value in (0, 1, 0.5))
    rest = _fmod(a, b)
    quotient = (a - rest) / b
    quotient = tirx.Select(_apart(rest, b), quotient - one, quotient)
    floored = tirx.floor(quotient)
    floored = tirx.Select(quotient - floored > half, floored + one, floored)
    return tirx.Select(b == zero, a / b, tirx.Select(quotient == zero, tirx.copysign(zero, a / b), floored))


def truncated_divide(a: Any, b: Any) -> Any:
    """Return ``torch.div(a, b, rounding_mode="trunc")``."""
    from tvm import tirx

    return tirx.trunc(a / b) if "float" in str(a.ty.dtype) else tirx.truncdiv(a, b)


def log1p(x: Any) -> Any:
    """Return the logarithm of ``1 + x`` without forming that sum."""
    from tvm import tirx

    return tirx.log1p(x)


def _fmod(a: Any, b: Any) -> Any:
    """Return the C library's `fmod`: the sign of the dividend."""
    from tvm import tirx

    dtype = str(a.ty.dtype)
    if dtype not in _NAMES:
        raise NotImplementedError(f"The remainder of {dtype} is not converted; compute it in float32.")
    return tirx.call_pure_extern(dtype, _NAMES[dtype], a, b)


def _apart(a: Any, b: Any) -> Any:
    """Return whether one of two numbers is above and the other below 0."""
    from tvm import tirx

    return tirx.any(tirx.all(a > 0, b < 0), tirx.all(a < 0, b > 0))
