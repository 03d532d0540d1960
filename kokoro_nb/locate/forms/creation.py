"""Tensors made of numbers, chosen and interpolated in other forms."""

from typing import Any

from kokoro_nb.faults.planting_site import FaultSite
from kokoro_nb.locate.forms.form import OtherForm, Writer, is_tensor, meta


def _where(site: FaultSite) -> Any:
    given, add = site.arguments, Writer(site)
    pair = [given["self"], given["other"]]
    if all(is_tensor(one) for one in pair):
        return None
    like = next((one for one in pair if is_tensor(one)), given["condition"])
    dtype = site.value.dtype
    chosen = [add.cast(one, dtype) if is_tensor(one) else add("full_like", like, one, dtype=dtype) for one in pair]
    return add("where.self", given["condition"], *chosen)


def _ones(site: FaultSite) -> Any:
    return Writer(site)("full", list(site.value.shape), 1, dtype=site.value.dtype)


def _infinite(site: FaultSite) -> Any:
    """Add what is not finite as the logarithm of 0, or of -1."""
    add, value = Writer(site), site.arguments["fill_value"]
    if not site.value.is_floating_point() or abs(value) < float("inf"):
        return None
    inside = -1.0 if value != value else 0.0
    found = add("log", add("full", list(site.value.shape), inside, dtype=site.value.dtype))
    return add("neg", found) if value > 0 else found


def _triangle(site: FaultSite) -> Any:
    given, add = site.arguments, Writer(site)
    rows, columns = site.value.shape[-2:]
    off = add("sub.Tensor", add("arange", columns), add("reshape", add("arange", rows), [rows, 1]))
    kept = add("ge.Scalar" if "triu" in site.op else "le.Scalar", off, given["diagonal"])
    return add.where(kept, given["self"], 0)


def _linear(site: FaultSite) -> Any:
    """Add an interpolation as two gatherings and their weights."""
    import torch

    given, add = site.arguments, Writer(site)
    x = given.get("input", given.get("self"))
    length, size = meta(x).shape[-1], site.value.shape[-1]
    factor = given.get("scale_factors", given.get("scales"))
    factor = factor[0] if isinstance(factor, list | tuple) else factor
    places = add("arange", size, dtype=torch.float32)
    if given["align_corners"]:
        places = add("mul.Tensor", places, (length - 1) / (size - 1) if size > 1 else 0.0)
    else:
        share = 1 / factor if factor else length / size
        places = add("sub.Tensor", add("mul.Tensor", add("add.Tensor", places, 0.5), share), 0.5)
        places = add("maximum", places, add("zeros_like", places))
    before = add.cast(add("floor", places), torch.int64)
    after = add("minimum", add("add.Tensor", before, 1), add.filled(before, length - 1))
    weight = add.cast(add("sub.Tensor", places, before), site.value.dtype)
    low, high = (add("index_select", x, 2, one) for one in (before, after))
    return add("add.Tensor", add("mul.Tensor", low, add("rsub.Scalar", weight, 1)), add("mul.Tensor", high, weight))


_TRIANGLE = OtherForm("a triangle by where", "where keeps what a comparison of row and column says", _triangle)
FORMS: dict[str, tuple[OtherForm, ...]] = {
    "where": (OtherForm("where of tensors", "the number is a tensor of the result's dtype", _where),),
    "new_ones": (OtherForm("full", "full makes the ones", _ones),),
    "full": (OtherForm("an infinity computed", "what is not finite is a logarithm", _infinite),),
    **dict.fromkeys(("triu", "tril"), (_TRIANGLE,)),
    "upsample_linear1d": (
        OtherForm("interpolation written out", "two gatherings, and the weights between them", _linear),
    ),
}
