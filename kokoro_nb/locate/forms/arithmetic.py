"""Arithmetic in other forms: `alpha`, dtypes, masks, remainders and quotients."""

from typing import Any

from kokoro_nb.locate.forms import OtherForm, choose, filled, is_float, is_mask, is_tensor


def _alpha(self: Any, other: Any, alpha: Any, op: Any, **_: Any) -> Any:
    if alpha == 1:
        return None
    if "rsub" in str(op):
        return -(self * alpha) + other
    return self - other * alpha if "sub" in str(op) else self + other * alpha


def _one_dtype(op: Any, result: Any, rounding_mode: str | None = None, **given: Any) -> Any:
    import torch

    pair = [given[name] for name in ("self", "other") if given.get(name) is not None]
    dtype = result.dtype
    if len(pair) == 2 and dtype == torch.bool:
        dtype = torch.result_type(*pair)
    if rounding_mode is not None or all(not is_tensor(one) or one.dtype == dtype for one in pair):
        return None
    pair = [one.to(dtype) if is_tensor(one) else one for one in pair]
    if "rsub" in str(op):
        return -(pair[0] * given["alpha"]) + pair[1]
    return op(*pair, *([given["dim"]] if "dim" in given else []))


def _masks(self: Any, other: Any, op: Any, **_: Any) -> Any:
    if not is_mask(self) or not is_mask(other):
        return None
    return self.logical_or(other) if "add" in str(op) or "__or__" in str(op) else self.logical_and(other)


def _remainder(self: Any, other: Any, result: Any, **_: Any) -> Any:
    if not is_float(result):
        return None  # the quotient of whole numbers is none
    return self - self.floor() if not is_tensor(other) and other == 1 else self - (self / other).floor() * other


def _by_fmod(self: Any, other: Any, **_: Any) -> Any:
    if not is_tensor(self):
        return None
    rest = self.fmod(other)
    return choose(_apart(rest, other), rest + other, rest)


def _apart(rest: Any, divisor: Any) -> Any:
    """Return whether a remainder is above and the divisor below 0, or the other way round."""
    if not is_tensor(divisor):
        return rest < 0 if divisor > 0 else rest > 0
    return ((rest < 0).logical_and(divisor > 0)).logical_or((rest > 0).logical_and(divisor < 0))


def _quotient(self: Any, other: Any, result: Any, rounding_mode: str | None = "floor", **_: Any) -> Any:
    """Return a quotient that is rounded down or towards 0: what fmod leaves over is taken away first."""
    if rounding_mode is None or not is_float(result):
        return None
    if not is_tensor(other) and other == 1:
        return self.floor() if rounding_mode == "floor" else self.trunc()
    rest = self.fmod(other)
    whole = ((self - rest) / other).round()
    if rounding_mode == "trunc":
        return whole
    floored = choose(_apart(rest, other), whole - 1.0, whole)
    return choose(other == 0, self / other, floored) if is_tensor(other) else floored


def _whole_quotient(self: Any, other: Any, result: Any, rounding_mode: str | None = "floor", **_: Any) -> Any:
    if rounding_mode is None or is_float(result):
        return None
    x = self.to(result.dtype)
    return x.div(other.to(x.dtype) if is_tensor(other) else filled(x, other), rounding_mode=rounding_mode)


def _not_equal(self: Any, other: Any, **_: Any) -> Any:
    if not is_float(self) or self is other:
        return self.isnan() if is_float(self) else None
    found = (self < other).logical_or(self > other).logical_or(self.isnan())
    return found.logical_or(other.isnan()) if is_float(other) else found


def _itself(self: Any, other: Any, **_: Any) -> Any:
    return self.isnan().logical_not() if self is other and is_float(self) else None


def _by_zero(self: Any, other: Any, **_: Any) -> Any:
    return None if is_tensor(other) or other != 0 or not is_float(self) else self - self


def _named(self: Any, other: Any, op: Any, **_: Any) -> Any:
    return getattr(self, {"multiply": "mul", "divide": "div", "subtract": "sub"}[str(op).split(".")[1]])(other)


_ALPHA = OtherForm("alpha written out", "the product with alpha stands in the program", _alpha)
ONE_DTYPE = OtherForm("one dtype first", "the operands are cast to the dtype of the result first", _one_dtype)
_MASKS = OtherForm("masks by logic", "logical_or and logical_and stand for the sum and the product of masks", _masks)
_FIRST = OtherForm("the remainder first", "what fmod leaves over is taken away, then divided", _quotient)
_TENSOR = OtherForm("a divisor of the same dtype", "the divisor is a tensor of the result's dtype", _whole_quotient)
_ITSELF = OtherForm("isnan asked", "a value is compared with itself, which NaN fails", _itself)
_ZERO = OtherForm("x - x", "0 is written as x - x, which is NaN where x is not finite", _by_zero)
_FLOOR = OtherForm("x - floor(x)", "the remainder is x less the whole multiples of the divisor", _remainder)
_FMOD = OtherForm("fmod", "the remainder is that of fmod, with the divisor added where the signs differ", _by_fmod)
_SIDES = OtherForm("less or greater", "unequal is written as less, greater or not a number", _not_equal)
_NAME = OtherForm("the usual operator", "mul, div or sub stands for multiply, divide or subtract", _named)
FORMS: dict[str, tuple[OtherForm, ...]] = {
    "add": (_ALPHA, _MASKS, ONE_DTYPE),
    **dict.fromkeys(("sub", "rsub"), (_ALPHA, ONE_DTYPE)),
    "mul": (_MASKS, ONE_DTYPE, _ZERO),
    **dict.fromkeys(("__and__", "__or__"), (_MASKS,)),
    "div": (ONE_DTYPE, _FIRST, _TENSOR),
    "floor_divide": (_FIRST, _TENSOR),
    "remainder": (_FLOOR, _FMOD),
    "ne": (_SIDES, ONE_DTYPE),
    **dict.fromkeys(("eq", "le", "ge"), (_ITSELF, ONE_DTYPE)),
    **dict.fromkeys(("lt", "gt", "cumprod"), (ONE_DTYPE,)),
    **dict.fromkeys(("multiply", "divide", "subtract"), (_NAME,)),
}
