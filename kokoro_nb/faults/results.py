"""Faults of a result: the operator computes what it should, and something happens to it afterwards."""

from typing import Any

from kokoro_nb.faults.planting_site import Site


def is_float(site: Site) -> bool:
    """Return whether the result is one float tensor of one axis or more, and no one of several."""
    return not site.is_element and site.value.is_floating_point() and site.value.ndim > 0 and site.value.numel() > 0


def has_neighbours(site: Site) -> bool:
    """Return whether the last axis has two elements or more."""
    return is_float(site) and site.value.shape[-1] > 1


def is_one_of_equals(site: Site) -> bool:
    """Return whether the result is the first of several of one shape."""
    if not site.is_element or site.node.args[1] != 0:
        return False
    values = site.node.args[0].meta["val"]
    return len(values) > 1 and len({(value.shape, value.dtype) for value in values}) == 1


def nan_channel(site: Site) -> None:
    """Make one channel NaN: the square root of something below zero."""
    _in_channel(site, lambda channel: site.emit(_aten().sqrt.default, _below_zero(site, channel)))


def infinite_channel(site: Site) -> None:
    """Make one channel infinite: the exponential of something above 1000."""
    _in_channel(
        site, lambda channel: site.emit(_aten().exp.default, _negated(site, _below_zero(site, channel, 1000.0)))
    )


def zeroed_channel(site: Site) -> None:
    """Make one channel zero."""
    _in_channel(site, lambda channel: site.emit(_aten().mul.Tensor, channel, 0.0))


def sign_flip(site: Site) -> None:
    """Change the sign."""
    site.give(_negated(site, site.node))


def scaled(site: Site) -> None:
    """Multiply by 1.01."""
    site.give(site.emit(_aten().mul.Tensor, site.node, 1.01))


def half_rounding(site: Site) -> None:
    """Round to float16 and back."""
    import torch

    half = site.emit(_aten()._to_copy.default, site.node, dtype=torch.float16)
    site.give(site.emit(_aten()._to_copy.default, half, dtype=site.value.dtype))


def saturated(site: Site) -> None:
    """Clamp to -0.25 and 0.25."""
    site.give(site.emit(_aten().clamp.default, site.node, -0.25, 0.25))


def shifted(site: Site) -> None:
    """Shift by one along the last axis; the last element is repeated."""
    last, size = site.value.ndim - 1, site.value.shape[-1]
    rest = site.emit(_aten().slice.Tensor, site.node, last, 1, size)
    edge = site.emit(_aten().slice.Tensor, site.node, last, size - 1, size)
    site.give(site.emit(_aten().cat.default, [rest, edge], last))


def swapped_results(site: Site) -> None:
    """Give the results of one operator in the opposite order."""
    import operator

    several = site.node.args[0]
    elements = {user.args[1]: user for user in several.users}
    count, axis = len(several.meta["val"]), site.channels
    parts = [elements.get(place) or site.emit(operator.getitem, several, place) for place in range(count)]
    site.follow(*parts)
    joined = site.emit(_aten().cat.default, parts[::-1], axis)
    again = site.emit(_aten().split.Tensor, joined, site.value.shape[axis], axis)
    for place, part in elements.items():
        site.give(site.emit(operator.getitem, again, place), instead=part)


def _in_channel(site: Site, falsified: Any) -> None:
    """Put what `falsified` makes of one channel in its place."""
    axis = site.channels
    place = site.random.randrange(site.value.shape[axis])
    channel = site.emit(_aten().select.int, site.node, axis, place)
    site.give(site.emit(_aten().select_scatter.default, site.node, falsified(channel), axis, place))


def _below_zero(site: Site, value: Any, offset: float = 1.0) -> Any:
    square = site.emit(_aten().mul.Tensor, value, value)
    return site.emit(_aten().sub.Tensor, _negated(site, square), offset)


def _negated(site: Site, value: Any) -> Any:
    return site.emit(_aten().neg.default, value)


def _aten() -> Any:
    import torch

    return torch.ops.aten
