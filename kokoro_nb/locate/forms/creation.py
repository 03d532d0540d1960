"""Tensors made of numbers, chosen and interpolated in other forms."""

from typing import Any

from kokoro_nb.locate.forms.form import OtherForm, filled, is_float, is_tensor


def _where(condition: Any, self: Any, other: Any, result: Any, **_: Any) -> Any:
    if is_tensor(self) and is_tensor(other):
        return None
    x, other = (
        one.to(result.dtype) if is_tensor(one) else filled(condition, one, result.dtype) for one in (self, other)
    )
    return x.where(condition, other)


def _ones(result: Any, **_: Any) -> Any:
    import torch

    return torch.full(result.shape, 1, dtype=result.dtype)


def _infinite(fill_value: Any, result: Any, **_: Any) -> Any:
    """Return what is not finite as the logarithm of 0, or of -1."""
    import torch

    if not is_float(result) or abs(fill_value) < float("inf"):
        return None
    inside = -1.0 if fill_value != fill_value else 0.0
    found = torch.full(result.shape, inside, dtype=result.dtype).log()
    return -found if fill_value > 0 else found


def _linear(align_corners: bool, result: Any, **given: Any) -> Any:
    """Return an interpolation as two gatherings and their weights."""
    import torch

    x: Any = given.get("input", given.get("self"))
    length, size = x.shape[-1], result.shape[-1]
    factor = given.get("scale_factors", given.get("scales"))
    factor = factor[0] if isinstance(factor, list | tuple) else factor
    places = torch.arange(size, dtype=torch.float32)
    if align_corners:
        places = places * ((length - 1) / (size - 1) if size > 1 else 0.0)
    else:
        places = (places + 0.5) * (1 / factor if factor else length / size) - 0.5
        places = places.maximum(filled(places, 0))
    before = places.floor().to(torch.int64)
    after = (before + 1).minimum(filled(before, length - 1))
    weight = (places - before).to(result.dtype)
    return x.index_select(2, before) * (1 - weight) + x.index_select(2, after) * weight


_LINEAR = OtherForm("interpolation written out", "two gatherings, and the weights between them", _linear)
FORMS: dict[str, tuple[OtherForm, ...]] = {
    "where": (OtherForm("where of tensors", "the number is a tensor of the result's dtype", _where),),
    "new_ones": (OtherForm("full", "full makes the ones", _ones),),
    "full": (OtherForm("an infinity computed", "what is not finite is a logarithm", _infinite),),
    "upsample_linear1d": (_LINEAR,),
}
