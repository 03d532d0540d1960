"""Tensors made of numbers, chosen and interpolated in other forms."""

from typing import Any

from kokoro_nb.locate.forms.form import OtherForm, choose, is_float, is_tensor


def _where(condition: Any, self: Any, other: Any, result: Any, **_: Any) -> Any:
    import torch

    pair = [self, other]
    if all(is_tensor(one) for one in pair):
        return None
    like = next((one for one in pair if is_tensor(one)), condition)
    dtype = result.dtype
    return torch.where(
        condition, *(one.to(dtype) if is_tensor(one) else torch.full_like(like, one, dtype=dtype) for one in pair)
    )


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


def _triangle(self: Any, diagonal: int, op: Any, **_: Any) -> Any:
    import torch

    off = torch.arange(self.shape[-1]) - torch.arange(self.shape[-2]).unsqueeze(-1)
    return choose(off >= diagonal if "triu" in str(op) else off <= diagonal, self, 0)


def _linear(align_corners: bool, result: Any, **given: Any) -> Any:
    """Return an interpolation as two gatherings and their weights."""
    import torch

    x = given.get("input", given.get("self"))
    length, size = x.shape[-1], result.shape[-1]
    factor = given.get("scale_factors", given.get("scales"))
    factor = factor[0] if isinstance(factor, list | tuple) else factor
    places = torch.arange(size, dtype=torch.float32)
    if align_corners:
        places = places * ((length - 1) / (size - 1) if size > 1 else 0.0)
    else:
        places = (places + 0.5) * (1 / factor if factor else length / size) - 0.5
        places = torch.maximum(places, torch.zeros_like(places))
    before = places.floor().to(torch.int64)
    after = torch.minimum(before + 1, torch.full_like(before, length - 1))
    weight = (places - before).to(result.dtype)
    return x.index_select(2, before) * (1 - weight) + x.index_select(2, after) * weight


_TRIANGLE = OtherForm("a triangle by where", "where keeps what a comparison of row and column says", _triangle)
_LINEAR = OtherForm("interpolation written out", "two gatherings, and the weights between them", _linear)
FORMS: dict[str, tuple[OtherForm, ...]] = {
    "where": (OtherForm("where of tensors", "the number is a tensor of the result's dtype", _where),),
    "new_ones": (OtherForm("full", "full makes the ones", _ones),),
    "full": (OtherForm("an infinity computed", "what is not finite is a logarithm", _infinite),),
    **dict.fromkeys(("triu", "tril"), (_TRIANGLE,)),
    "upsample_linear1d": (_LINEAR,),
}
