"""Faults of an operator: it is called with another number than the model's, or is another function."""

import torch

from kokoro_nb.faults.planting_site import FaultSite

SMALL = 1e-2  # a number up to here that is added to a tensor is taken for an epsilon
ARITHMETIC = ("aten.add.Tensor", "aten.sub.Tensor", "aten.mul.Tensor", "aten.div.Tensor", "aten.pow.Tensor_Scalar")
FUNCTIONS = {
    "aten.sin.default": "cos",
    "aten.cos.default": "sin",
    "aten.rsqrt.default": "reciprocal",
    "aten.tanh.default": "sigmoid",
    "aten.sigmoid.default": "tanh",
    "aten.exp.default": "expm1",
    "aten.relu.default": "neg",
}


def has_epsilon(site: FaultSite) -> bool:
    """Return whether the operator adds an epsilon, or takes one."""
    return _is_epsilon(site) or isinstance(site.arguments.get("eps"), float)


def wrong_epsilon(site: FaultSite) -> None:
    """Multiply the epsilon by 1000."""
    name = "other" if _is_epsilon(site) else "eps"
    site.call(**{name: 1000 * site.arguments[name]})


def has_scalar(site: FaultSite) -> bool:
    """Return whether the operator combines a float tensor with a number that is no epsilon."""
    return site.op in ARITHMETIC and _scalar(site) is not None and not _is_epsilon(site)


def wrong_scalar(site: FaultSite) -> None:
    """Change the number by a tenth, and an exponent by one."""
    found = _scalar(site)
    assert found is not None
    name, number = found
    site.call(**{name: number + 1 if name == "exponent" else 1.1 * number if number else 0.1})


def wrong_activation(site: FaultSite) -> None:
    """Use another slope (0.01, or 0.2 where it is 0.01), or the other kind of GELU."""
    if site.op == "aten.gelu.default":
        site.call(approximate="tanh" if site.arguments["approximate"] == "none" else "none")
    else:
        site.call(negative_slope=0.2 if site.arguments["negative_slope"] == 0.01 else 0.01)


def wrong_function(site: FaultSite) -> None:
    """Call another function: sin for cos, 1/x for 1/sqrt(x), and so on; see `FUNCTIONS`."""
    site.node.target = getattr(torch.ops.aten, FUNCTIONS[site.op]).default


def overflow(site: FaultSite) -> None:
    """Add 100 to the argument of an exponential, beyond the 88.7 that float32 can hold."""
    site.call(self=site.emit(torch.ops.aten.add.Tensor, site.arguments["self"], 100.0, ahead=True))


def unclamped(site: FaultSite) -> None:
    """Set the limits to those of float32."""
    site.call(min=-3.0e38, max=3.0e38)


def _scalar(site: FaultSite) -> tuple[str, float] | None:
    """Return name and value of the number that a tensor is combined with."""
    for name in ("other", "exponent"):
        number = site.arguments.get(name)
        if isinstance(number, int | float) and not isinstance(number, bool) and site.value.is_floating_point():
            return name, number
    return None


def _is_epsilon(site: FaultSite) -> bool:
    found = _scalar(site)
    return site.op == "aten.add.Tensor" and found is not None and 0 < found[1] <= SMALL
