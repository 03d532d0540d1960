"""Bounds, maxima and minima in other forms: with NaN kept, over one axis, of whole numbers."""

from typing import Any

from kokoro_nb.faults.planting_site import FaultSite
from kokoro_nb.locate.forms.form import OtherForm, Writer, axes_of, is_float, is_tensor, meta

BOUNDED = ("clamp", "clamp_min", "clamp_max", "relu", "relu6", "hardtanh", "hardsigmoid", "hardswish")


def _nan_kept(site: FaultSite) -> Any:
    add, found = Writer(site), None
    for one in site.arguments.values():
        if is_tensor(one) and is_float(one):
            found = add.again() if found is None else found
            found = add.where(add("isnan", one), one, found)
    return found


def _nan_of_all(site: FaultSite) -> Any:
    given, add = site.arguments, Writer(site)
    if not is_float(given["self"]) or "dim" in given:
        return None
    return with_nan(add, add.again(), given["self"], None, False)


def with_nan(add: Writer, found: Any, x: Any, axes: Any, keep: bool) -> Any:
    """Add to a reduction the sum of all NaN that went into it: 0 where there are none."""
    if not is_float(x):
        return found
    lost = add.where(add("isnan", x), x, 0)
    return add("add.Tensor", found, add("sum.dim_IntList", lost, axes, keep))


def largest(add: Writer, x: Any, axes: list[int], keep: bool) -> Any:
    """Add the maximum over axes, taken over one."""
    found = add.element(add("max.dim", add.last(x, axes), -1), 0)
    shape = list(meta(x).shape)
    kept = [1 if axis in axes else size for axis, size in enumerate(shape) if keep or axis not in axes]
    return with_nan(add, add("reshape", found, kept), x, axes, keep)


def _amax(site: FaultSite) -> Any:
    given, add = site.arguments, Writer(site)
    axes = axes_of(given["self"], given["dim"])
    if not axes:
        return None
    if "amax" in site.op:
        return largest(add, given["self"], axes, given["keepdim"])
    return add("neg", largest(add, add("neg", given["self"]), axes, given["keepdim"]))


def _bounds(site: FaultSite) -> Any:
    """Add bounds of whole numbers as tensors."""
    given, add = site.arguments, Writer(site)
    x, dtype = given["self"], site.value.dtype
    if dtype.is_floating_point:
        return None
    bounds = [(name, given.get(key)) for key, name in (("min", "maximum"), ("max", "minimum"))]
    bounds = [("maximum", 0)] if "relu" in site.op else bounds
    x = add.cast(x, dtype)
    for name, bound in bounds:
        if bound is not None:
            x = add(name, x, add.cast(bound, dtype) if is_tensor(bound) else add.filled(x, bound))
    return x


_KEPT = OtherForm("NaN kept", "NaN is put back where it went in", _nan_kept)
_AMONG = OtherForm("NaN kept", "NaN is added where there is one among the numbers", _nan_of_all)
_BOUNDS = OtherForm("bounds as tensors", "whole numbers are held against tensors of their dtype", _bounds)
_ONE_AXIS = OtherForm("max over one axis", "the axes are one, of which max.dim gives the largest", _amax)
FORMS: dict[str, tuple[OtherForm, ...]] = {
    **dict.fromkeys(BOUNDED, (_KEPT,)),
    **dict.fromkeys(("clamp", "clamp_min", "clamp_max", "relu"), (_BOUNDS, _KEPT)),
    **dict.fromkeys(("maximum", "minimum"), (_KEPT,)),
    **dict.fromkeys(("max", "min"), (_AMONG,)),
    **dict.fromkeys(("amax", "amin"), (_ONE_AXIS,)),
}
