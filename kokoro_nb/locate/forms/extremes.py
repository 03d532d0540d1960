"""Bounds, maxima and minima in other forms: with NaN kept, over one axis, of whole numbers."""

from typing import Any

from kokoro_nb.locate.forms.form import OtherForm, axes_of, choose, is_float, is_tensor, with_last


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


def _first_nan(op: Any, result: Any, **given: Any) -> Any:
    import torch

    extreme = float("inf") if "argmax" in str(op) else -float("inf")
    x, *rest = given.values()
    return op(torch.where(x.isnan(), extreme, x), *rest) if is_float(x) else None


def _pooled(op: Any, result: Any, **given: Any) -> Any:
    import torch

    x, *rest = given.values()
    return torch.where(op(x.isnan().to(x.dtype), *rest) > 0, float("nan"), op(x, *rest))


def _bounds(self: Any, result: Any, op: Any, min: Any = None, max: Any = None, **_: Any) -> Any:
    """Return whole numbers held against bounds that are tensors."""
    import torch

    if is_float(result):
        return None
    x, low = self.to(result.dtype), 0 if "relu" in str(op) else min
    for function, bound in ((torch.maximum, low), (torch.minimum, max)):
        if bound is not None:
            x = function(x, bound.to(x.dtype) if is_tensor(bound) else torch.full_like(x, bound))
    return x


_KEPT = OtherForm("NaN kept", "NaN is put back where it went in", _nan_kept)
_AMONG = OtherForm("NaN kept", "NaN is added where there is one among the numbers", _nan_of_all)
_FIRST = OtherForm("NaN kept", "NaN counts as an infinity, which no number is beyond", _first_nan)
_POOLED = OtherForm("NaN kept", "NaN is put where a pooling of its own finds one", _pooled)
_BOUNDS = OtherForm("bounds as tensors", "whole numbers are held against tensors of their dtype", _bounds)
_ONE_AXIS = OtherForm("max over one axis", "the axes are one, of which max.dim gives the largest", _amax)
FORMS: dict[str, tuple[OtherForm, ...]] = {
    **dict.fromkeys(("clamp", "clamp_min", "clamp_max", "relu"), (_BOUNDS, _KEPT)),
    **dict.fromkeys(("relu6", "hardtanh", "hardsigmoid", "maximum", "minimum"), (_KEPT,)),
    **dict.fromkeys(("max", "min"), (_AMONG,)),
    **dict.fromkeys(("argmax", "argmin"), (_FIRST,)),
    **dict.fromkeys(("max_pool1d", "max_pool2d"), (_POOLED,)),
    **dict.fromkeys(("amax", "amin"), (_ONE_AXIS,)),
}
