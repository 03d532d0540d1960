"""Functions, bounds and extremes written out, so that what is small, large or not a number comes out right."""

from math import inf, pi
from typing import Any

from kokoro_nb.locate.forms import DECOMPOSED, PARTS, OtherForm, axes_of, choose, is_float, with_last


def _atan2(self: Any, other: Any, **_: Any) -> Any:
    larger = self.abs().maximum(other.abs())
    larger = choose(larger == 0, 1, larger)
    angle = (self / larger).atan2(other / larger)
    level = self == 0
    right = choose(level.logical_and(other < 0), pi, angle)
    return choose(level.logical_and(other >= 0), 0, right)


def _one(x: Any) -> Any:
    return x - x + 1.0


def _log_of_more(x: Any) -> Any:
    """Return log(1 + x) with the rounding of 1 + x divided out; where 1 + x is 1 it is x (Kahan)."""
    more = x + 1.0
    near = choose(more == 1, x, more.log() * x / (more - 1.0))
    return choose(x.abs() < 0.5, near, more.log())


def _softplus(self: Any, beta: float, threshold: float, **_: Any) -> Any:
    scaled = self * beta
    return choose(scaled > threshold, self, _log_of_more(scaled.exp()) / beta)


def _expm1(self: Any, **_: Any) -> Any:
    power = self.exp()
    near = choose(power == 1, self, (power - 1.0) * self / power.log())
    return choose(self.abs() < 0.5, near, power - 1.0)


_KAHAN = "the rounding of 1 + x is divided out of its logarithm"
_ATAN2 = "both are divided by the larger; pi is put in where y is 0 and x below it, 0 where x is not"
_ROOT = "1 is a tensor that is divided by the root of x"
_BELOW = "finite is written as smaller than infinity in size"


def _nan_kept(op: Any, result: Any, **given: Any) -> Any:
    floats = [one for one in given.values() if is_float(one)]
    found = op(*given.values()) if floats else None
    for one in floats:
        found = choose(one.isnan(), one, found)
    return found


def _nan_of_all(self: Any, op: Any, **_: Any) -> Any:
    return _with_nan(op(self), self, None, keep=False) if str(op).endswith(".default") else None


def _with_nan(found: Any, x: Any, axes: Any, keep: bool) -> Any:
    """Return a reduction with the sum of all NaN that went into it added: 0 where there are none."""
    return found + choose(x.isnan(), x, 0).sum(axes, keep) if is_float(x) else found


def largest(x: Any, axes: list[int], keep: bool) -> Any:
    """Return the maximum over axes, taken over one."""
    found = with_last(x, axes).max(-1).values
    kept = [1 if axis in axes else size for axis, size in enumerate(x.shape) if keep or axis not in axes]
    return _with_nan(found.reshape(kept), x, axes, keep)


def _amax(self: Any, dim: Any, keepdim: bool, op: Any, **_: Any) -> Any:
    axes = axes_of(self, dim)
    return largest(self, axes, keepdim) if "amax" in str(op) else -largest(-self, axes, keepdim)


_KEPT = OtherForm("NaN kept", "NaN is put back where it went in", _nan_kept)
_AMONG = OtherForm("NaN kept", "NaN is added where there is one among the numbers", _nan_of_all)
_ONE_AXIS = OtherForm("max over one axis", "the axes are one, of which max.dim gives the largest", _amax)
FORMS: dict[str, tuple[OtherForm, ...]] = {
    **dict.fromkeys(("clamp", "clamp_min", "clamp_max"), (_KEPT, DECOMPOSED)),
    **dict.fromkeys(("relu6", "hardtanh", "hardsigmoid", "maximum", "minimum"), (_KEPT,)),
    "relu": (_KEPT, DECOMPOSED),
    **dict.fromkeys(("gelu", "elu", "selu", "celu", "new_ones"), (DECOMPOSED,)),
    **dict.fromkeys(("max", "min"), (_AMONG,)),
    **dict.fromkeys(("amax", "amin"), (_ONE_AXIS,)),
    "atan2": (OtherForm("atan2 with its cut set", _ATAN2, _atan2),),
    "reciprocal": (OtherForm("a quotient", "1 is a tensor that is divided by x", lambda self, **_: _one(self) / self),),
    "rsqrt": (OtherForm("a quotient by the root", _ROOT, lambda self, **_: _one(self) / self.sqrt()),),
    **dict.fromkeys(("logsumexp", "logaddexp"), (PARTS,)),
    "log_sigmoid": (OtherForm("log1p of small numbers", _KAHAN, lambda self, **_: -_softplus(-self, 1.0, 20.0)),),
    "softplus": (OtherForm("log1p of small numbers", _KAHAN, _softplus),),
    "log1p": (OtherForm("log1p of small numbers", _KAHAN, lambda self, **_: _log_of_more(self)),),
    "expm1": (OtherForm("expm1 of small numbers", "the rounding of exp(x) is divided out of exp(x) - 1", _expm1),),
    "isfinite": (OtherForm("below infinity", _BELOW, lambda self, **_: self.abs() < inf if is_float(self) else None),),
}
