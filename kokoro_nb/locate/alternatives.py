"""What another operator makes of the same arguments: the forms in which converters are known to write operators."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
import torch

from kokoro_nb.locate.forms import axes_of, with_last
from kokoro_nb.torch_private import schema
from kokoro_nb.traces.statistics import largest

Alternative = tuple[str, Callable[..., Any]]  # in words, and what it gives of the arguments by name; None: not of these
SELU = 1.6732632423543772  # its alpha, as PyTorch has it


def _single(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function of one operand or two compute in float32, step by step."""
    return lambda self, other=None, **_: function(*(np.float32(one) for one in (self, other) if one is not None))


def _whole_quotient(self: Any, other: Any, rounding_mode: str | None = None, **_: Any) -> Any:
    whole = all(np.asarray(one).dtype.kind in "iu" for one in (self, other))
    return np.trunc(self / other) if whole and not rounding_mode else None


def _softplus(self: np.ndarray, beta: float, threshold: float, **_: Any) -> Any:
    x = np.float32(self)
    return np.where(x > threshold, x, np.log(1 + np.exp(x))) if beta == 1 else None


def _in_turn(self: np.ndarray, dim: Any = None, keepdim: bool = False, **_: Any) -> Any:
    """Add what is summed one by one in float32."""
    axes = axes_of(self, dim)
    total = np.add.accumulate(with_last(torch.from_numpy(self).float(), axes).numpy(), axis=-1)[..., -1]
    return np.expand_dims(total, axes) if keepdim else total


def _mean_in_turn(self: np.ndarray, **given: Any) -> Any:
    total = _in_turn(self, **given)
    return total / (self.size / total.size)


def _root_mean_in_turn(input: np.ndarray, normalized_shape: Any, weight: Any, eps: float | None, **_: Any) -> Any:
    x, last = input.astype(np.float32), range(-len(normalized_shape), 0)
    mean = _in_turn(x * x, last, keepdim=True) / np.prod(normalized_shape)
    found = x / np.sqrt(mean + (np.finfo(np.float32).eps if eps is None else eps))
    return found if weight is None else found * weight


def _turned_glu(self: np.ndarray, dim: int = -1, **_: Any) -> Any:
    gate, values = np.split(self, 2, dim)
    return values / (1 + np.exp(-gate))


def _place(function: Callable[..., Any], self: np.ndarray, dim: int | None = None, keepdim: bool = False) -> Any:
    return function(self, axis=dim, keepdims=keepdim)


def _resized(mode: str, input: np.ndarray, output_size: Any = None, scale_factors: Any = None, **given: Any) -> Any:
    sizes = output_size or [int(size * one) for size, one in zip(input.shape[2:], scale_factors, strict=True)]
    corners = None if mode == "nearest" else given.get("align_corners")
    return torch.nn.functional.interpolate(torch.from_numpy(input), sizes, mode=mode, align_corners=corners).numpy()


def _scattered(one: Callable[[list[Any]], Any]) -> Callable[..., Any]:
    """Return a scatter_reduce with another reduction: `one` takes the values for a place, its old value first."""

    def compute(self: np.ndarray, dim: int, index: np.ndarray, src: np.ndarray, **_: Any) -> Any:
        found = {place: [value] for place, value in np.ndenumerate(self)}
        for place, target in np.ndenumerate(index):
            found[(*place[: dim % self.ndim], int(target), *place[dim % self.ndim + 1 :])].append(src[place])
        return np.reshape([one(values) for values in found.values()], self.shape)

    return compute


def _log_of_softmax(self: np.ndarray, dim: int, least: float = 0.0, **_: Any) -> Any:
    power = np.exp(np.float32(self - self.max(dim, keepdims=True)))
    return np.log(power / power.sum(dim, keepdims=True) + np.float32(least))


ROOT = np.sqrt(2 / np.pi)
_ONE_BY_ONE = "a sum one by one in float32"
_SHARP = "an interpolation without antialiasing"
_SIZES = "an interpolation by the sizes, not by the scale"
ALTERNATIVES: tuple[tuple[str, str, Callable[..., Any]], ...] = (  # kinds of operators, and an alternative to each
    ("gelu", "GELU by tanh", lambda self, **_: 0.5 * self * (1 + np.tanh(ROOT * (self + 0.044715 * self**3)))),
    ("gelu", "GELU by sigmoid", lambda self, **_: self / (1 + np.exp(-1.702 * self))),
    ("glu", "GLU with its halves exchanged", _turned_glu),
    ("remainder", "0", lambda self, **_: 0 * self),
    ("remainder", "a remainder that truncates", lambda self, other, **_: np.fmod(self, other)),
    ("remainder", "x - floor(x / y) y", _single(lambda x, y: x - np.floor(x / y) * y)),
    ("fmod", "a remainder that floors", lambda self, other, **_: np.mod(self, other)),
    ("atan2", "atan(y / x)", lambda self, other, **_: np.arctan(self / other)),
    ("atan2", "atan2 that is 0 where y is", lambda self, other, **_: np.where(self == 0, 0, np.arctan2(self, other))),
    ("floor ceil trunc", "rounding to the nearest", lambda self, **_: np.round(self)),
    ("round floor ceil trunc", "rounding half up", lambda self, **_: np.floor(self + 0.5)),
    ("round floor ceil", "truncation", lambda self, **_: np.trunc(self)),
    ("round ceil trunc", "the floor", lambda self, **_: np.floor(self)),
    ("round floor trunc", "the ceiling", lambda self, **_: np.ceil(self)),
    ("mul", "0, whatever x is", lambda self, other, **_: np.zeros(self.shape) if np.all(other == 0) else None),
    ("div", "integer division", _whole_quotient),
    ("div floor_divide", "the floor of the rounded quotient", _single(lambda x, y: np.floor(x / y))),
    ("lt", "less_equal", lambda self, other, **_: np.less_equal(self, other)),
    ("le", "less", lambda self, other, **_: np.less(self, other)),
    ("gt", "greater_equal", lambda self, other, **_: np.greater_equal(self, other)),
    ("ge", "greater", lambda self, other, **_: np.greater(self, other)),
    ("clamp", "a clamp whose lower bound wins", lambda self, min, max, **_: np.maximum(np.minimum(self, max), min)),
    ("logaddexp", "log(exp(x) + exp(y))", _single(lambda x, y: np.log(np.exp(x) + np.exp(y)))),
    ("logaddexp2", "log2(2^x + 2^y)", _single(lambda x, y: np.log2(np.exp2(x) + np.exp2(y)))),
    ("log_softmax", "the logarithm of softmax", _log_of_softmax),
    ("log_softmax", "the logarithm of softmax and 1e-45", partial(_log_of_softmax, least=1e-45)),  # as Core ML has it
    ("hardsigmoid", "one of slope 0.2", lambda self, **_: np.clip(0.2 * self + 0.5, 0, 1)),
    ("prelu", "one whose slopes are along the last axis", lambda self, weight: np.where(self > 0, self, self * weight)),
    ("masked_fill", "the value where the mask does not hold", lambda self, mask, value: np.where(mask, self, value)),
    ("scatter_add scatter_reduce", "a scatter that keeps the last number alone", _scattered(lambda values: values[-1])),
    ("logcumsumexp", "the logarithm of a running sum", lambda self, dim: np.log(np.exp(np.float32(self)).cumsum(dim))),
    ("eq", "eq that NaN passes", lambda self, other, **_: (self == other) | np.isnan(self) & np.isnan(other)),
    ("ne", "less or greater, which NaN is not", lambda self, other, **_: (self < other) | (self > other)),
    ("selu", "ELU without its scale", lambda self, **_: np.where(self > 0, self, SELU * np.expm1(self))),
    ("log1p", "log(1 + x)", _single(lambda x: np.log(1 + x))),
    ("expm1", "exp(x) - 1", _single(lambda x: np.exp(x) - 1)),
    ("softplus", "log(1 + exp(x))", _softplus),
    ("argmax", "the place of the maximum of all values but NaN", partial(_place, np.nanargmax)),
    ("argmin", "the place of the minimum of all values but NaN", partial(_place, np.nanargmin)),
    ("sign", "the sign, and NaN of NaN", lambda self, **_: np.sign(self)),
    ("_upsample_bilinear2d_aa", _SHARP, partial(_resized, "bilinear")),
    ("_upsample_bicubic2d_aa", _SHARP, partial(_resized, "bicubic")),
    ("scatter_reduce", "the sum", _scattered(sum)),
    ("scatter_reduce", "the sum without the old value", _scattered(lambda values: sum(values[1:] or values))),
    ("scatter_reduce", "the mean with the old value", _scattered(np.mean)),
    ("scatter_reduce", "the mean without the old value", _scattered(lambda values: np.mean(values[1:] or values))),
    ("sum", _ONE_BY_ONE, _in_turn),
    ("mean", _ONE_BY_ONE, _mean_in_turn),
    ("rms_norm", _ONE_BY_ONE, _root_mean_in_turn),
    ("reciprocal", "1 / (x + 0.0001)", lambda self, **_: 1 / (self + 1e-4)),
    ("rsqrt", "1 / sqrt(x + 1e-12)", lambda self, **_: 1 / np.sqrt(self + 1e-12)),
    *(
        (f"upsample_{mode}{axes}d", words, partial(_resized, other))
        for mode, axes in (("linear", 1), ("bilinear", 2), ("bicubic", 2), ("nearest", 1), ("nearest", 2))
        for words, other in ((_SIZES, mode), ("an interpolation by the nearest neighbour", "nearest"))
    ),
)


def of_right(right: np.ndarray, dtype: str) -> Iterator[Alternative]:
    """Yield the negation of truth values, and whole numbers cast as C does, modulo a power of two, to fewer bits."""
    if dtype == "bool":
        yield "its negation", lambda **_: np.logical_not(right)
    if (top := largest(right)) < 2.0**63 and np.array_equal(right, np.trunc(right)):
        for kind in (np.dtype(one) for one in ("int32", "int16", "uint8", "int8") if top > np.iinfo(one).max):
            cut = right.astype(np.int64).astype(kind)
            yield f"whole numbers in {kind.name}, which wrap around", lambda cut=cut, **_: cut


def other_calls(op: str, arguments: Mapping[str, Any]) -> Iterator[Alternative]:
    """Yield the operator with another value of one argument, or with two tensors exchanged, and its input unchanged."""
    namespace, _, name = op.partition("[")[0].partition(".")
    stem, _, overload = name.partition(".")
    target = getattr(getattr(getattr(torch.ops, namespace), stem, None), overload or "default", None)
    tensor = next((one for one in arguments.values() if isinstance(one, np.ndarray)), np.empty(()))
    parameters = schema(target).arguments if arguments and schema(target) is not None else ()
    for one in parameters:
        value = arguments.get(one.name)
        for other in _other_values(one, value, tensor):
            yield f"one whose {one.name} is {other}, not {value}", partial(_called, target, {one.name: other})
    for a, b in combinations([one.name for one in parameters if isinstance(arguments.get(one.name), np.ndarray)], 2):
        if arguments[a].shape == arguments[b].shape:
            yield f"one whose {a} and {b} are exchanged", partial(_called, target, {a: arguments[b], b: arguments[a]})
    for name in (one for one in ("weight", "bias") if isinstance(arguments.get(one), np.ndarray)):
        yield f"one without its {name}", partial(_called, target, {name: None})
    yield "its input, unchanged", lambda **given: next(iter(given.values()))


def _other_values(parameter: Any, value: Any, tensor: np.ndarray) -> list[Any]:
    """Return what may have been taken in place of an argument: its default, another axis, a number beside it.

    Of the number that a tensor of whole numbers or truth values is taken with, what it is in the tensor's dtype.
    """
    shape = tensor.shape
    if isinstance(value, bool):
        return [not value]
    if parameter.name == "dim" and isinstance(value, int | list):
        axes: Any = range(len(shape))
        axes = axes if isinstance(value, int) else [*([axis] for axis in axes), [*axes]]
        return [axis for axis in axes if not np.array_equal(np.mod(axis, len(shape)), np.mod(value, len(shape)))]
    if parameter.name == "rounding_mode":
        return [one for one in ("trunc", "floor") if one != value]
    near = [value - 1, value + 1, 2 * value, value // 2, *shape[1:2], 1] if isinstance(value, int) else []
    if parameter.name == "other" and isinstance(value, int | float) and tensor.dtype.kind in "iub":
        near = [np.asarray(value).astype(tensor.dtype).item(), *near]
    optional = parameter.name in ("divisor_override", "value")  # which are ignored where they are not set
    known = (parameter.default_value, *near) if isinstance(value, int | float | str) else ()
    return [one for one in known if (one is not None or optional) and one != value]


def _called(target: Any, changed: Mapping[str, Any], **given: Any) -> Any:
    """Return what an operator of PyTorch gives of arguments by name, arrays among them."""
    values = {**given, **changed}.items()
    result = target(**{name: torch.from_numpy(one) if isinstance(one, np.ndarray) else one for name, one in values})
    return result.numpy()
