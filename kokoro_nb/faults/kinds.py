"""The kinds of faults: a name, what it does, and the operators that it can be planted at."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from kokoro_nb.faults.planting_site import FaultSite

ATEN = torch.ops.aten
SMALL = 1e-2  # a number up to here that is added to a tensor is taken for an epsilon


@dataclass(frozen=True)
class FaultKind:
    """One kind of fault.

    Attributes
    ----------
    apply : callable
        Plants it at a `FaultSite`; its name is the kind's, and its docstring says what it does.
    fits : callable
        Returns whether it can be planted at a `FaultSite`.
    """

    apply: Callable[[FaultSite], None]
    fits: Callable[[FaultSite], bool]


def is_float(site: FaultSite) -> bool:
    """Return whether the result is one float tensor of one axis or more, and no one of several."""
    return not site.is_element and site.value.is_floating_point() and site.value.ndim > 0 and site.value.numel() > 0


def nan_channel(site: FaultSite) -> None:
    """Make one channel NaN: the square root of something below zero."""

    def root(channel: Any) -> Any:
        opposite = site.emit(ATEN.neg.default, site.emit(ATEN.mul.Tensor, channel, channel))
        return site.emit(ATEN.sqrt.default, site.emit(ATEN.sub.Tensor, opposite, 1.0))

    in_channel(site, root)


def zeroed_channel(site: FaultSite) -> None:
    """Make one channel zero."""
    in_channel(site, lambda channel: site.emit(ATEN.mul.Tensor, channel, 0.0))


def in_channel(site: FaultSite, falsified: Callable[[Any], Any]) -> None:
    """Put what `falsified` makes of one channel, which the seed chooses, in its place."""
    axis = min(1, site.value.ndim - 1)
    place = site.random.randrange(site.value.shape[axis])
    channel = site.emit(ATEN.select.int, site.node, axis, place)
    site.give(site.emit(ATEN.select_scatter.default, site.node, falsified(channel), axis, place))


def sign_flip(site: FaultSite) -> None:
    """Change the sign."""
    site.give(site.emit(ATEN.neg.default, site.node))


def scaled(site: FaultSite) -> None:
    """Multiply by 1.01."""
    site.give(site.emit(ATEN.mul.Tensor, site.node, 1.01))


def half_rounding(site: FaultSite) -> None:
    """Round to float16 and back."""
    half = site.emit(ATEN._to_copy.default, site.node, dtype=torch.float16)
    site.give(site.emit(ATEN._to_copy.default, half, dtype=site.value.dtype))


def wrong_epsilon(site: FaultSite) -> None:
    """Multiply the epsilon by 1000."""
    name = "other" if adds_epsilon(site) else "eps"
    site.call(**{name: 1000 * site.arguments[name]})


def adds_epsilon(site: FaultSite) -> bool:
    """Return whether the operator adds a small number to a float tensor."""
    number = site.arguments.get("other")
    if site.op != "aten.add.Tensor" or isinstance(number, bool) or not isinstance(number, int | float):
        return False
    return site.value.is_floating_point() and 0 < number <= SMALL


def has_bias(site: FaultSite) -> bool:
    """Return whether the operator adds a bias."""
    return "weight" in site.arguments and site.arguments.get("bias") is not None


def dropped_bias(site: FaultSite) -> None:
    """Leave the bias out."""
    site.call(bias=None)


_OWN = (
    *(FaultKind(one, is_float) for one in (nan_channel, zeroed_channel, sign_flip, scaled, half_rounding)),
    FaultKind(wrong_epsilon, lambda site: adds_epsilon(site) or isinstance(site.arguments.get("eps"), float)),
    FaultKind(dropped_bias, has_bias),
)

KINDS: dict[str, FaultKind] = {kind.apply.__name__: kind for kind in _OWN}
"""Kinds by name; a caller adds kinds of its own."""
