"""Arithmetic in other forms: `alpha`, dtypes, masks, remainders and quotients."""

from typing import Any

from kokoro_nb.faults.planting_site import FaultSite
from kokoro_nb.locate.forms.form import OtherForm, Writer, is_float, is_tensor, meta


def _alpha(site: FaultSite) -> Any:
    given, add = site.arguments, Writer(site)
    alpha = given.get("alpha", 1)
    if alpha == 1:
        return None
    if "rsub" in site.op:
        scaled = add("mul.Tensor", given["self"], alpha)
        return add("add.Tensor", add("neg", scaled), given["other"])
    other = given["other"]
    other = add("mul.Tensor", other, alpha) if is_tensor(other) else other * alpha
    return add("sub.Tensor" if "sub" in site.op else "add.Tensor", given["self"], other)


def _one_dtype(site: FaultSite) -> Any:
    import torch

    given, add = site.arguments, Writer(site)
    if given.get("rounding_mode") is not None:
        return None
    operands = [given[name] for name in ("self", "other") if given.get(name) is not None]
    dtype = site.value.dtype
    if len(operands) == 2 and dtype == torch.bool:
        dtype = torch.result_type(*(meta(one) if is_tensor(one) else one for one in operands))
    cast = {
        name: add.cast(given[name], dtype)
        for name in ("self", "other")
        if is_tensor(given.get(name)) and meta(given[name]).dtype != dtype
    }
    if not cast:
        return None
    if "rsub" in site.op:
        x, other = (cast.get(name, given[name]) for name in ("self", "other"))
        return add("add.Tensor", add("neg", add("mul.Tensor", x, given["alpha"])), other)
    return add.again(**cast)


def _masks(site: FaultSite) -> Any:
    import torch

    pair = [site.arguments["self"], site.arguments["other"]]
    if not all(is_tensor(one) and meta(one).dtype == torch.bool for one in pair):
        return None
    return Writer(site)("logical_or" if ".add." in site.op or "__or__" in site.op else "logical_and", *pair)


def _remainder(site: FaultSite) -> Any:
    x, divisor = site.arguments["self"], site.arguments["other"]
    add = Writer(site)
    if site.op == "aten.remainder.Scalar" and divisor == 1:
        return add("sub.Tensor", x, add("floor", x))
    whole = add("floor", add("div.Tensor", x, divisor))
    return add("sub.Tensor", x, add("mul.Tensor", whole, divisor))


def _by_fmod(site: FaultSite) -> Any:
    x, divisor, add = site.arguments["self"], site.arguments["other"], Writer(site)
    if not is_tensor(x):
        return None
    rest = add.over("fmod", x, divisor)
    return add.where(_apart(add, rest, divisor), add("add.Tensor", rest, divisor), rest)


def _apart(add: Writer, rest: Any, divisor: Any) -> Any:
    """Add whether a remainder is above and the divisor below 0, or the other way round."""
    below, above = add("lt.Scalar", rest, 0), add("gt.Scalar", rest, 0)
    if not is_tensor(divisor):
        return below if divisor > 0 else above
    pairs = ((below, add("gt.Scalar", divisor, 0)), (above, add("lt.Scalar", divisor, 0)))
    return add("logical_or", *(add("logical_and", *pair) for pair in pairs))


def _quotient(site: FaultSite) -> Any:
    """Add a quotient that is rounded down or towards 0: what fmod leaves over is taken away first."""
    given, add = site.arguments, Writer(site)
    mode = given.get("rounding_mode", "floor")
    if mode is None or not site.value.is_floating_point():
        return None
    x, divisor = given["self"], given["other"]
    rest = add.over("fmod", x, divisor)
    whole = add("round", add("div.Tensor", add("sub.Tensor", x, rest), divisor))
    if mode == "trunc":
        return whole
    floored = add.where(_apart(add, rest, divisor), add("sub.Tensor", whole, 1.0), whole)
    if not is_tensor(divisor):
        return floored
    return add.where(add("eq.Scalar", divisor, 0), add("div.Tensor", x, divisor), floored)


def _whole_quotient(site: FaultSite) -> Any:
    given, add = site.arguments, Writer(site)
    mode, divisor = given.get("rounding_mode", "floor"), given["other"]
    if mode is None or site.value.is_floating_point():
        return None
    x = add.cast(given["self"], site.value.dtype)
    divisor = add.cast(divisor, site.value.dtype) if is_tensor(divisor) else add.filled(x, divisor)
    return add("div.Tensor_mode", x, divisor, rounding_mode=mode)


def _not_equal(site: FaultSite) -> Any:
    given, add = site.arguments, Writer(site)
    pair = (given["self"], given["other"])
    if not is_float(pair[0]):
        return None
    if pair[0] is pair[1]:
        return add("isnan", pair[0])
    tests = [add.over(name, *pair) for name in ("lt", "gt")]
    tests += [add("isnan", one) for one in pair if is_tensor(one) and is_float(one)]
    found = tests[0]
    for one in tests[1:]:
        found = add("logical_or", found, one)
    return found


def _itself(site: FaultSite) -> Any:
    x, add = site.arguments["self"], Writer(site)
    if x is not site.arguments["other"] or not is_float(x):
        return None
    return add("logical_not", add("isnan", x))


def _by_zero(site: FaultSite) -> Any:
    x, other = site.arguments["self"], site.arguments["other"]
    if is_tensor(other) or other != 0 or not is_float(x):
        return None
    return Writer(site)("sub.Tensor", x, x)


def _named(site: FaultSite) -> Any:
    other = {"multiply": "mul", "divide": "div", "subtract": "sub"}[site.op.split(".")[1]]
    return Writer(site)(f"{other}.Tensor", site.arguments["self"], site.arguments["other"])


_ALPHA = OtherForm("alpha written out", "the product with alpha stands in the program", _alpha)
ONE_DTYPE = OtherForm("one dtype first", "what is computed with is cast to the dtype of the result first", _one_dtype)
_MASKS = OtherForm("masks by logic", "logical_or and logical_and stand for the sum and the product of masks", _masks)
_FIRST = OtherForm("the remainder first", "what fmod leaves over is taken away, then divided", _quotient)
_TENSOR = OtherForm(
    "a divisor of the same dtype", "the divisor is a tensor of the dtype of the result", _whole_quotient
)
_ITSELF = OtherForm("isnan asked", "what is equal to itself is what is not NaN", _itself)
_ZERO = OtherForm("x - x", "0 is what is left of x less itself: NaN of what is not finite", _by_zero)
_FMOD = OtherForm("fmod", "the remainder is that of fmod, with the divisor added where the signs differ", _by_fmod)
_SIDES = OtherForm("less or greater", "what is not equal is less, greater, or not a number", _not_equal)
_NAME = OtherForm("the usual operator", "mul, div or sub stands for multiply, divide or subtract", _named)
FORMS: dict[str, tuple[OtherForm, ...]] = {
    "add": (_ALPHA, _MASKS, ONE_DTYPE),
    "sub": (_ALPHA, ONE_DTYPE),
    "rsub": (_ALPHA, ONE_DTYPE),
    "mul": (_MASKS, ONE_DTYPE, _ZERO),
    **dict.fromkeys(("__and__", "__or__"), (_MASKS,)),
    "div": (ONE_DTYPE, _FIRST, _TENSOR),
    "floor_divide": (_FIRST, _TENSOR),
    "remainder": (
        OtherForm("x - floor(x)", "the remainder is x less the whole multiples of the divisor", _remainder),
        _FMOD,
    ),
    "eq": (_ITSELF, ONE_DTYPE),
    "ne": (_SIDES, ONE_DTYPE),
    **dict.fromkeys(("lt", "gt"), (ONE_DTYPE,)),
    **dict.fromkeys(("le", "ge"), (_ITSELF, ONE_DTYPE)),
    "cumsum": (ONE_DTYPE,),
    "cumprod": (ONE_DTYPE,),
    **dict.fromkeys(("multiply", "divide", "subtract"), (_NAME,)),
}
