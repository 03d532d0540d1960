"""What another operator makes of the same arguments: the forms in which converters are known to write operators."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Arguments = Mapping[str, Any]
Alternative = tuple[str, Callable[[Arguments], Any]]  # in words, and what it gives; None or KeyError: does not apply
SELU = (1.6732632423543772, 1.0507009873554805)
COMPARISONS = {"lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal}


def _of(function: Callable[..., Any]) -> Callable[[Arguments], Any]:
    """Make a function of the first operand one of the arguments."""
    return lambda given: function(_self(given))


def _of_both(function: Callable[..., Any]) -> Callable[[Arguments], Any]:
    """Make a function of two operands one of the arguments."""
    return lambda given: function(_self(given), np.asarray(given["other"], np.float64))


def _self(given: Arguments) -> np.ndarray:
    return np.asarray(given["self"], np.float64)


def _single(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function compute in float32, step by step."""
    return lambda *operands: function(*(one.astype(np.float32) for one in operands))


def _erf(x: np.ndarray) -> np.ndarray:
    import torch

    return torch.erf(torch.from_numpy(x)).numpy()


def _without_alpha(sign: int) -> Callable[[Arguments], Any]:
    return lambda given: _self(given) + sign * np.asarray(given["other"]) if given["alpha"] != 1 else None


def _opposite_without_alpha(given: Arguments) -> Any:
    return np.asarray(given["other"]) - _self(given) if given["alpha"] != 1 else None


def _rounded_number(function: Callable[..., Any]) -> Callable[[Arguments], Any]:
    """Make a function of a tensor of whole numbers and a fraction one of the whole part of that fraction."""

    def compute(given: Arguments) -> Any:
        x, other = np.asarray(given["self"]), given["other"]
        if not isinstance(other, float) or x.dtype.kind not in "iu" or other == int(other):
            return None
        return function(x, int(other))

    return compute


def _mask_times(given: Arguments) -> Any:
    x, other = np.asarray(given["self"]), given["other"]
    return x & bool(other) if x.dtype.kind == "b" and isinstance(other, int | float) else None


def _zero(given: Arguments) -> Any:
    other = given["other"]
    return 0 * np.nan_to_num(_self(given)) if isinstance(other, int | float) and other == 0 else None


def _whole_quotient(given: Arguments) -> Any:
    pair = [np.asarray(given[name]) for name in ("self", "other")]
    if any(one.dtype.kind not in "iu" for one in pair) or given["rounding_mode"]:
        return None
    return np.trunc(pair[0] / pair[1])


def _unscaled_elu(given: Arguments) -> Any:
    x, alpha = _self(given), given.get("alpha", SELU[0])
    return np.where(x > 0, x, alpha * np.expm1(x)) if given.get("scale", SELU[1]) != 1 else None


def _softplus(given: Arguments) -> Any:
    x = _self(given).astype(np.float32)
    return np.where(x > given["threshold"], x, np.log(1 + np.exp(x))) if given["beta"] == 1 else None


def _in_turn(given: Arguments) -> Any:
    """Add what is summed one by one in float32."""
    x = np.asarray(given["self"], np.float32)
    axes = [given["dim"]] if isinstance(given.get("dim"), int) else list(given.get("dim") or range(x.ndim))
    axes = sorted(axis % x.ndim for axis in axes)
    rest = [axis for axis in range(x.ndim) if axis not in axes]
    total = _summed(x.transpose(*rest, *axes).reshape(*(x.shape[axis] for axis in rest), -1))
    return np.expand_dims(total, axes) if given.get("keepdim") else total


def _summed(rows: np.ndarray) -> np.ndarray:
    return np.add.accumulate(rows, axis=-1, dtype=np.float32)[..., -1]


def _mean_in_turn(given: Arguments) -> Any:
    total = _in_turn(given)
    return total / (np.asarray(given["self"]).size / total.size)


def _root_mean_in_turn(given: Arguments) -> Any:
    x, size = np.asarray(given["input"], np.float32), int(np.prod(given["normalized_shape"]))
    eps = np.finfo(np.float32).eps if given["eps"] is None else given["eps"]
    mean = _summed(np.square(x.reshape(-1, size))).reshape(*x.shape[: -len(given["normalized_shape"])], 1) / size
    found = (x.reshape(*mean.shape[:-1], size) / np.sqrt(mean + eps)).reshape(x.shape)
    return found if given["weight"] is None else found * given["weight"]


def _wrapped_sums(given: Arguments) -> Any:
    x = np.asarray(given["self"])
    return np.cumsum(x, given["dim"], dtype=np.int32) if x.dtype == np.int32 else None


def _extreme(function: Callable[..., Any]) -> Callable[[Arguments], Any]:
    def compute(given: Arguments) -> Any:
        axes = given.get("dim")
        return function(_self(given), axis=tuple(axes) if axes else None, keepdims=bool(given.get("keepdim")))

    return compute


_FLOORED: Alternative = ("the floor of the rounded quotient", _of_both(_single(lambda x, y: np.floor(x / y))))
_ROUNDED = "{} with the number rounded to the tensor's integer dtype"
_ONE_BY_ONE = "a sum one by one in float32"
_LOST_NAN = "the {} of what is no NaN"
ALTERNATIVES: dict[str, tuple[Alternative, ...]] = {
    "gelu": (
        ("GELU by erf", _of(lambda x: 0.5 * x * (1 + _erf(x / np.sqrt(2))))),
        ("GELU by tanh", _of(lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))))),
        ("GELU by sigmoid", _of(lambda x: x / (1 + np.exp(-1.702 * x)))),
    ),
    "remainder": (
        ("0", _of(lambda x: 0 * x)),
        ("a remainder that truncates", _of_both(np.fmod)),
        ("x", _of(lambda x: x)),
        ("x - floor(x / y) y", _of_both(_single(lambda x, y: x - np.floor(x / y) * y))),
    ),
    "fmod": (("a remainder that floors", _of_both(np.mod)), ("0", _of(lambda x: 0 * x))),
    "atan2": (
        ("atan(y / x)", _of_both(lambda y, x: np.arctan(y / x))),
        ("atan2 that is 0 where y is", _of_both(lambda y, x: np.where(y == 0, 0.0, np.arctan2(y, x)))),
    ),
    "round": (
        ("rounding half up", _of(lambda x: np.floor(x + 0.5))),
        ("floor", _of(np.floor)),
        ("truncation", _of(np.trunc)),
    ),
    "add": (
        ("add without alpha", _without_alpha(1)),
        (_ROUNDED.format("add"), _rounded_number(np.add)),
    ),
    "sub": (
        ("sub without alpha", _without_alpha(-1)),
        (_ROUNDED.format("sub"), _rounded_number(np.subtract)),
    ),
    "rsub": (
        ("rsub without alpha", _opposite_without_alpha),
        (_ROUNDED.format("rsub"), _rounded_number(lambda x, y: y - x)),
    ),
    "mul": (
        (_ROUNDED.format("mul"), _rounded_number(np.multiply)),
        ("a product with the number taken as a truth value", _mask_times),
        ("0, whatever x is", _zero),
    ),
    "div": (_FLOORED, ("integer division", _whole_quotient)),
    "floor_divide": (_FLOORED,),
    **{
        kind: ((_ROUNDED.format(kind), _rounded_number(compare)),)
        for kind, compare in COMPARISONS.items()
        if kind != "eq"
    },
    "eq": (
        (_ROUNDED.format("eq"), _rounded_number(np.equal)),
        ("eq that NaN passes", _of_both(lambda x, y: (x == y) | np.isnan(x) & np.isnan(y))),
    ),
    "ne": (
        (_ROUNDED.format("ne"), _rounded_number(np.not_equal)),
        ("less or greater, which NaN is not", _of_both(lambda x, y: (x < y) | (x > y))),
    ),
    **dict.fromkeys(("elu", "selu"), (("ELU without its scale", _unscaled_elu),)),
    "log1p": (("log(1 + x)", _of(_single(lambda x: np.log(1 + x)))),),
    "expm1": (("exp(x) - 1", _of(_single(lambda x: np.exp(x) - 1))),),
    "softplus": (("log(1 + exp(x))", _softplus),),
    **dict.fromkeys(("max", "amax"), ((_LOST_NAN.format("maximum"), _extreme(np.nanmax)),)),
    **dict.fromkeys(("min", "amin"), ((_LOST_NAN.format("minimum"), _extreme(np.nanmin)),)),
    "maximum": ((_LOST_NAN.format("maximum"), _of_both(np.fmax)),),
    "minimum": ((_LOST_NAN.format("minimum"), _of_both(np.fmin)),),
    "cumsum": (("running sums in int32, which wrap around", _wrapped_sums),),
    "sum": ((_ONE_BY_ONE, _in_turn),),
    "mean": ((_ONE_BY_ONE, _mean_in_turn),),
    "rms_norm": ((_ONE_BY_ONE, _root_mean_in_turn),),
    "reciprocal": (("1 / (x + 0.0001)", _of(lambda x: 1 / (x + 1e-4))),),
    "rsqrt": (("1 / sqrt(x + 1e-12)", _of(lambda x: 1 / np.sqrt(x + 1e-12))),),
    "log_softmax": (("softmax", _of(lambda x: np.exp(x - x.max(-1, keepdims=True)))),),
}
