"""Faults of a result: the operator computes what it should, and something happens to it afterwards."""

from typing import Any

import torch

from kokoro_nb.faults.planting_site import FaultSite

ATEN = torch.ops.aten


def is_float(site: FaultSite) -> bool:
    """Return whether the result is one float tensor of one axis or more, and no one of several."""
    return not site.is_element and site.value.is_floating_point() and site.value.ndim > 0 and site.value.numel() > 0


def has_neighbours(site: FaultSite) -> bool:
    """Return whether the last axis has two elements or more."""
    return is_float(site) and site.value.shape[-1] > 1


def is_one_of_equals(site: FaultSite) -> bool:
    """Return whether the result is the first of several of one shape."""
    if not site.is_element or site.node.args[1] != 0:
        return False
    values = site.node.args[0].meta["val"]
    return len(values) > 1 and len({(value.shape, value.dtype) for value in values}) == 1


def nan_channel(site: FaultSite) -> None:
    """Make one channel NaN: the square root of something below zero."""
    _in_channel(site, lambda channel: site.emit(ATEN.sqrt.default, _below_zero(site, channel)))


def infinite_channel(site: FaultSite) -> None:
    """Make one channel infinite: the exponential of something above 1000."""
    _in_channel(site, lambda channel: site.emit(ATEN.exp.default, _negated(site, _below_zero(site, channel, 1000.0))))


def zeroed_channel(site: FaultSite) -> None:
    """Make one channel zero."""
    _in_channel(site, lambda channel: site.emit(ATEN.mul.Tensor, channel, 0.0))


def sign_flip(site: FaultSite) -> None:
    """Change the sign."""
    site.give(_negated(site, site.node))


def scaled(site: FaultSite) -> None:
    """Multiply by 1.01."""
    site.give(site.emit(ATEN.mul.Tensor, site.node, 1.01))


def half_rounding(site: FaultSite) -> None:
    """Round to float16 and back."""
    half = site.emit(ATEN._to_copy.default, site.node, dtype=torch.float16)
    site.give(site.emit(ATEN._to_copy.default, half, dtype=site.value.dtype))


def saturated(site: FaultSite) -> None:
    """Clamp to -0.25 and 0.25."""
    site.give(site.emit(ATEN.clamp.default, site.node, -0.25, 0.25))


def shifted(site: FaultSite) -> None:
    """Shift by one along the last axis; the last element is repeated."""
    last, size = site.value.ndim - 1, site.value.shape[-1]
    rest = site.emit(ATEN.slice.Tensor, site.node, last, 1, size)
    edge = site.emit(ATEN.slice.Tensor, site.node, last, size - 1, size)
    site.give(site.emit(ATEN.cat.default, [rest, edge], last))


def swapped_results(site: FaultSite) -> None:
    """Give the results of one operator in the opposite order."""
    import operator

    several = site.node.args[0]
    elements = {user.args[1]: user for user in several.users}
    count, axis = len(several.meta["val"]), site.channels
    parts = [elements.get(place) or site.emit(operator.getitem, several, place) for place in range(count)]
    site.follow(*parts)
    joined = site.emit(ATEN.cat.default, parts[::-1], axis)
    again = site.emit(ATEN.split.Tensor, joined, site.value.shape[axis], axis)
    for place, part in elements.items():
        site.give(site.emit(operator.getitem, again, place), instead=part)


def _in_channel(site: FaultSite, falsified: Any) -> None:
    """Put what `falsified` makes of one channel in its place."""
    axis = site.channels
    place = site.random.randrange(site.value.shape[axis])
    channel = site.emit(ATEN.select.int, site.node, axis, place)
    site.give(site.emit(ATEN.select_scatter.default, site.node, falsified(channel), axis, place))


def _below_zero(site: FaultSite, value: Any, offset: float = 1.0) -> Any:
    square = site.emit(ATEN.mul.Tensor, value, value)
    return site.emit(ATEN.sub.Tensor, _negated(site, square), offset)


def _negated(site: FaultSite, value: Any) -> Any:
    return site.emit(ATEN.neg.default, value)
