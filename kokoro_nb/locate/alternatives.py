"""What another operator makes of the same arguments: the forms in which converters are known to write operators."""

from collections.abc import Callable
from typing import Any

import numpy as np

Alternative = tuple[str, Callable[..., Any]]  # in words, and what it gives of the arguments by name; None: not of these
SELU = (1.6732632423543772, 1.0507009873554805)  # its alpha and its scale, as PyTorch has them


def _single(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function of one operand or two compute in float32, step by step."""
    return lambda self, other=None, **_: function(*(np.float32(one) for one in (self, other) if one is not None))


def _erf(x: np.ndarray) -> np.ndarray:
    import torch

    return torch.erf(torch.from_numpy(x)).numpy()


def _without_alpha(sign: int) -> Callable[..., Any]:
    return lambda self, other, alpha, **_: self + sign * np.asarray(other) if alpha != 1 else None


def _rounded(function: Callable[..., Any]) -> Alternative:
    """Return a function of whole numbers and a fraction as one of the whole part of that fraction."""

    def compute(self: np.ndarray, other: Any, **_: Any) -> Any:
        known = isinstance(other, float) and self.dtype.kind in "iu" and other != int(other)
        return function(self, int(other)) if known else None

    return "the same of the number rounded to the tensor's integer dtype", compute


def _mask_times(self: np.ndarray, other: Any, **_: Any) -> Any:
    return self & bool(other) if self.dtype.kind == "b" and isinstance(other, int | float) else None


def _whole_quotient(self: Any, other: Any, rounding_mode: str | None = None, **_: Any) -> Any:
    whole = all(np.asarray(one).dtype.kind in "iu" for one in (self, other))
    return np.trunc(self / other) if whole and not rounding_mode else None


def _softplus(self: np.ndarray, beta: float, threshold: float, **_: Any) -> Any:
    x = np.float32(self)
    return np.where(x > threshold, x, np.log(1 + np.exp(x))) if beta == 1 else None


def _unscaled_elu(self: np.ndarray, alpha: float = SELU[0], scale: float = SELU[1], **_: Any) -> Any:
    return np.where(self > 0, self, alpha * np.expm1(self)) if scale != 1 else None


def _in_turn(self: np.ndarray, dim: Any = None, keepdim: bool = False, **_: Any) -> Any:
    """Add what is summed one by one in float32."""
    axes = [axis % self.ndim for axis in ([dim] if isinstance(dim, int) else dim or range(self.ndim))]
    rest = [axis for axis in range(self.ndim) if axis not in axes]
    rows = self.astype(np.float32).transpose(*rest, *sorted(axes)).reshape(*(self.shape[axis] for axis in rest), -1)
    total = np.add.accumulate(rows, axis=-1)[..., -1]
    return np.expand_dims(total, axes) if keepdim else total


def _mean_in_turn(self: np.ndarray, **given: Any) -> Any:
    total = _in_turn(self, **given)
    return total / (self.size / total.size)


def _root_mean_in_turn(input: np.ndarray, normalized_shape: Any, weight: Any, eps: float | None, **_: Any) -> Any:
    x, last = input.astype(np.float32), range(-len(normalized_shape), 0)
    mean = _in_turn(x * x, last, keepdim=True) / np.prod(normalized_shape)
    found = x / np.sqrt(mean + (np.finfo(np.float32).eps if eps is None else eps))
    return found if weight is None else found * weight


def _wrapped(self: np.ndarray, dim: int, **_: Any) -> Any:
    return np.cumsum(self, dim, dtype=np.int32) if self.dtype == np.int32 else None


def _known(name: str, function: Callable[..., Any]) -> Alternative:
    """Return a maximum or minimum over axes of all values but NaN."""

    def compute(self: np.ndarray, dim: Any = None, keepdim: bool = False, **_: Any) -> Any:
        return function(self, axis=tuple(dim) if dim else None, keepdims=keepdim)

    return f"the {name} of all values but NaN", compute


def _compared(before: Callable[..., Any]) -> tuple[Alternative]:
    words = "the choice of a comparison that NaN fails"
    return ((words, lambda self, other, **_: np.where(before(self, other), self, other)),)


def _scattered(one: Callable[[list[Any]], Any]) -> Callable[..., Any]:
    """Return a scatter_reduce that leaves `one` of all that comes to a place, what was there before it first."""

    def compute(self: np.ndarray, dim: int, index: np.ndarray, src: np.ndarray, **_: Any) -> Any:
        found = {place: [value] for place, value in np.ndenumerate(self)}
        for place, target in np.ndenumerate(index):
            found[(*place[: dim % self.ndim], int(target), *place[dim % self.ndim + 1 :])].append(src[place])
        return np.reshape([one(values) for values in found.values()], self.shape)

    return compute


ROOT = np.sqrt(2 / np.pi)
_FLOORED: Alternative = ("the floor of the rounded quotient", _single(lambda x, y: np.floor(x / y)))
_ONE_BY_ONE = "a sum one by one in float32"
ALTERNATIVES: dict[str, tuple[Alternative, ...]] = {
    "gelu": (
        ("GELU by erf", lambda self, **_: 0.5 * self * (1 + _erf(self / np.sqrt(2)))),
        ("GELU by tanh", lambda self, **_: 0.5 * self * (1 + np.tanh(ROOT * (self + 0.044715 * self**3)))),
        ("GELU by sigmoid", lambda self, **_: self / (1 + np.exp(-1.702 * self))),
    ),
    "remainder": (
        ("0", lambda self, **_: 0 * self),
        ("a remainder that truncates", lambda self, other, **_: np.fmod(self, other)),
        ("x", lambda self, **_: self),
        ("x - floor(x / y) y", _single(lambda x, y: x - np.floor(x / y) * y)),
    ),
    "fmod": (("a remainder that floors", lambda self, other, **_: np.mod(self, other)),),
    "atan2": (
        ("atan(y / x)", lambda self, other, **_: np.arctan(self / other)),
        ("atan2 that is 0 where y is", lambda self, other, **_: np.where(self == 0, 0, np.arctan2(self, other))),
    ),
    "round": (
        ("rounding half up", lambda self, **_: np.floor(self + 0.5)),
        ("truncation", lambda self, **_: np.trunc(self)),
    ),
    "add": (("the sum without alpha", _without_alpha(1)), _rounded(np.add)),
    "sub": (("the difference without alpha", _without_alpha(-1)), _rounded(np.subtract)),
    "rsub": (
        ("the difference without alpha", lambda self, other, alpha, **_: other - self if alpha != 1 else None),
        _rounded(lambda x, y: y - x),
    ),
    "mul": (
        _rounded(np.multiply),
        ("a product with the number taken as a truth value", _mask_times),
        ("0, whatever x is", lambda self, other, **_: np.zeros(self.shape) if np.all(other == 0) else None),
    ),
    "div": (
        ("integer division", _whole_quotient),
        _FLOORED,
        ("x", lambda self, other, **_: self if np.all(other == 1) else None),
    ),
    "floor_divide": (_FLOORED,),
    **{
        kind: (_rounded(compare),)
        for kind, compare in {"lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}.items()
    },
    "eq": (
        _rounded(np.equal),
        ("eq that NaN passes", lambda self, other, **_: (self == other) | np.isnan(self) & np.isnan(other)),
    ),
    "ne": (
        _rounded(np.not_equal),
        ("less or greater, which NaN is not", lambda self, other, **_: (self < other) | (self > other)),
    ),
    **dict.fromkeys(("elu", "selu"), (("ELU without its scale", _unscaled_elu),)),
    "log1p": (("log(1 + x)", _single(lambda x: np.log(1 + x))),),
    "expm1": (("exp(x) - 1", _single(lambda x: np.exp(x) - 1)),),
    "softplus": (("log(1 + exp(x))", _softplus),),
    **dict.fromkeys(("max", "amax"), (_known("maximum", np.nanmax),)),
    **dict.fromkeys(("min", "amin"), (_known("minimum", np.nanmin),)),
    "maximum": _compared(np.greater),
    "minimum": _compared(np.less),
    "scatter_reduce": (
        ("a scatter that keeps the last number alone", _scattered(lambda values: values[-1])),
        ("the sum", _scattered(sum)),
        ("the sum without the old value", _scattered(lambda values: sum(values[1:] or values))),
        ("the mean with the old value", _scattered(np.mean)),
        ("the mean without the old value", _scattered(lambda values: np.mean(values[1:] or values))),
    ),
    "cumsum": (("running sums in int32, which wrap around", _wrapped),),
    "sum": ((_ONE_BY_ONE, _in_turn),),
    "mean": ((_ONE_BY_ONE, _mean_in_turn),),
    "rms_norm": ((_ONE_BY_ONE, _root_mean_in_turn),),
    "reciprocal": (("1 / (x + 0.0001)", lambda self, **_: 1 / (self + 1e-4)),),
    "rsqrt": (("1 / sqrt(x + 1e-12)", lambda self, **_: 1 / np.sqrt(self + 1e-12)),),
}
