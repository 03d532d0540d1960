"""Faults of an argument: an epsilon that is not the model's, a bias that is left out."""

from kokoro_nb.faults.planting_site import FaultSite

SMALL = 1e-2  # a number up to here that is added to a tensor is taken for an epsilon


def has_epsilon(site: FaultSite) -> bool:
    """Return whether the operator adds an epsilon, or takes one."""
    return adds_epsilon(site) or isinstance(site.arguments.get("eps"), float)


def wrong_epsilon(site: FaultSite) -> None:
    """Multiply the epsilon by 1000."""
    name = "other" if adds_epsilon(site) else "eps"
    site.call(**{name: 1000 * site.arguments[name]})


def has_bias(site: FaultSite) -> bool:
    """Return whether the operator adds a bias."""
    return "weight" in site.arguments and site.arguments.get("bias") is not None


def dropped_bias(site: FaultSite) -> None:
    """Leave the bias out."""
    site.call(bias=None)


def adds_epsilon(site: FaultSite) -> bool:
    """Return whether the operator adds a small number to a float tensor."""
    number = site.arguments.get("other")
    if site.op != "aten.add.Tensor" or isinstance(number, bool) or not isinstance(number, int | float):
        return False
    return site.value.is_floating_point() and 0 < number <= SMALL
