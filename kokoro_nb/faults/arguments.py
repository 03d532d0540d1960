"""Faults of an operator: it is called with another number than the model's, or is another function."""

from typing import Any

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


REDUCTIONS = ("aten.mean.dim", "aten.sum.dim_IntList", "aten.amax.default", "aten.amin.default")


def is_reduction(site: FaultSite) -> bool:
    """Return whether the operator reduces an axis of two elements or more."""
    return site.op in REDUCTIONS and site.arguments["self"].meta["val"].shape[_reduced(site)] > 1


def short_reduction(site: FaultSite) -> None:
    """Leave out the last element of what is reduced."""
    source, axis = site.arguments["self"], _reduced(site)
    size = source.meta["val"].shape[axis]
    site.call(self=site.emit(torch.ops.aten.slice.Tensor, source, axis, 0, size - 1, ahead=True))


def one_pass_variance(site: FaultSite) -> None:
    """Compute a variance as E[x²] - E[x]²."""
    aten = torch.ops.aten
    x, axes, keep = deviated(site), site.arguments["dim"], site.arguments["keepdim"]
    squares = site.emit(aten.mean.dim, site.emit(aten.mul.Tensor, x, x), axes, keep)
    mean = site.emit(aten.mean.dim, x, axes, keep)
    site.give(site.emit(aten.sub.Tensor, squares, site.emit(aten.mul.Tensor, mean, mean)))


def is_dilatable(site: FaultSite) -> bool:
    """Return whether the operator is a convolution along one axis whose dilation can grow at the same length."""
    if site.op != "aten.conv1d.default":
        return False
    return site.arguments["weight"].meta["val"].shape[-1] % 2 == 1 < site.arguments["weight"].meta["val"].shape[-1]


def wrong_dilation(site: FaultSite) -> None:
    """Have a convolution skip one sample more between its taps, at the same length."""
    reach = site.arguments["weight"].meta["val"].shape[-1] // 2
    (padding,), (dilation,) = site.arguments["padding"], site.arguments["dilation"]
    site.call(padding=[padding + reach], dilation=[dilation + 1])


def off_by_one(site: FaultSite) -> None:
    """Slice, select or pad one element beside the place."""
    site.call(**(moved(site) or {}))


def is_reflected(site: FaultSite) -> bool:
    """Return whether the operator pads with what is there."""
    return site.op == "aten.pad.default" and site.arguments["mode"] != "constant"


def wrong_padding(site: FaultSite) -> None:
    """Pad with zeros."""
    site.call(mode="constant", value=0.0)


def _reduced(site: FaultSite) -> int:
    axes = site.arguments["dim"]
    return list(axes)[-1] % site.arguments["self"].meta["val"].ndim if axes else 0


def deviated(site: FaultSite) -> Any:
    """Return the x of a mean((x - mean(x))²), None if the operator is none."""
    if site.op != "aten.mean.dim":
        return None
    square = site.arguments["self"]
    if str(square.target) not in ("aten.mul.Tensor", "aten.pow.Tensor_Scalar"):
        return None
    deviation, other = square.args[0], square.args[1]
    if (other is not deviation and other != 2) or str(getattr(deviation, "target", "")) != "aten.sub.Tensor":
        return None
    x, mean = deviation.args[0], deviation.args[1]
    same = str(getattr(mean, "target", "")) == "aten.mean.dim" and mean.args[0] is x
    return x if same and mean.args[1] == site.arguments["dim"] else None


def moved(site: FaultSite) -> dict[str, Any] | None:
    """Return the arguments one element beside the place, None if there is no room."""
    given = site.arguments
    if site.op == "aten.select.int":
        last = given["self"].meta["val"].shape[given["dim"]] - 1
        index = given["index"] % (last + 1)
        return {"index": index - 1 if index == last else index + 1} if last else None
    if site.op == "aten.pad.default" and given["pad"][1]:
        return {"pad": [given["pad"][0] + 1, given["pad"][1] - 1, *given["pad"][2:]]}
    return _moved_slice(site) if site.op == "aten.slice.Tensor" else None


def _moved_slice(site: FaultSite) -> dict[str, Any] | None:
    given, size = site.arguments, site.value.shape[site.arguments["dim"]]
    whole, step = given["self"].meta["val"].shape[given["dim"]], given["step"]
    first = slice(given["start"], given["end"], step).indices(whole)[0]
    for start in (first + 1, first - 1):
        end = start + (size - 1) * step + 1
        if start >= 0 and end <= whole and size:
            return {"start": start, "end": end}
    return None
