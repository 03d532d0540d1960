"""Bounds, maxima and minima in other forms: with NaN kept, over one axis, of whole numbers."""

from typing import Any

from kokoro_nb.locate.forms.form import OtherForm, axes_of, choose, filled, is_float, is_tensor, with_last


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


def _bounds(self: Any, result: Any, op: Any, min: Any = None, max: Any = None, **_: Any) -> Any:
    """Return whole numbers held against bounds that are tensors."""
    if is_float(result):
        return None
    x, given = self.to(result.dtype), list[Any]((0 if "relu" in str(op) else min, max))
    low, high = (one.to(x.dtype) if is_tensor(one) else one if one is None else filled(x, one) for one in given)
    x = x if low is None else x.maximum(low)
    return x if high is None else x.minimum(high)


_KEPT = OtherForm("NaN kept", "NaN is put back where it went in", _nan_kept)
_AMONG = OtherForm("NaN kept", "NaN is added where there is one among the numbers", _nan_of_all)
_BOUNDS = OtherForm("bounds as tensors", "whole numbers are held against tensors of their dtype", _bounds)
_ONE_AXIS = OtherForm("max over one axis", "the axes are one, of which max.dim gives the largest", _amax)
FORMS: dict[str, tuple[OtherForm, ...]] = {
    **dict.fromkeys(("clamp", "clamp_min", "clamp_max", "relu"), (_BOUNDS, _KEPT)),
    **dict.fromkeys(("relu6", "hardtanh", "hardsigmoid", "maximum", "minimum"), (_KEPT,)),
    **dict.fromkeys(("max", "min"), (_AMONG,)),
    **dict.fromkeys(("amax", "amin"), (_ONE_AXIS,)),
}
