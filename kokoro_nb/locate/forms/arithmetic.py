"""Arithmetic in other forms: masks, remainders, quotients and comparisons."""

from typing import Any

from kokoro_nb.locate.forms import DECOMPOSED, OtherForm, choose, filled, is_float, is_mask, is_tensor


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


_MASKS = OtherForm("masks by logic", "logical_or and logical_and stand for the sum and the product of masks", _masks)
_FIRST = OtherForm("the remainder first", "what fmod leaves over is taken away, then divided", _quotient)
_TENSOR = OtherForm("a divisor of the same dtype", "the divisor is a tensor of the result's dtype", _whole_quotient)
_ITSELF = OtherForm("isnan asked", "a value is compared with itself, which NaN fails", _itself)
_ZERO = OtherForm("x - x", "0 is written as x - x, which is NaN where x is not finite", _by_zero)
_FLOOR = OtherForm("x - floor(x)", "the remainder is x less the whole multiples of the divisor", _remainder)
_FMOD = OtherForm("fmod", "the remainder is that of fmod, with the divisor added where the signs differ", _by_fmod)
_SIDES = OtherForm("less or greater", "unequal is written as less, greater or not a number", _not_equal)
FORMS: dict[str, tuple[OtherForm, ...]] = {
    **dict.fromkeys(("sub", "rsub", "lt", "gt", "multiply", "divide", "subtract"), (DECOMPOSED,)),
    "add": (_MASKS, DECOMPOSED),
    "mul": (_MASKS, _ZERO, DECOMPOSED),
    **dict.fromkeys(("__and__", "__or__"), (_MASKS,)),
    "div": (_FIRST, _TENSOR, DECOMPOSED),
    "floor_divide": (_FIRST, _TENSOR),
    "remainder": (_FLOOR, _FMOD),
    "ne": (_SIDES, DECOMPOSED),
    **dict.fromkeys(("eq", "le", "ge"), (_ITSELF, DECOMPOSED)),
}
