"""Faults of where an operator looks: one element off, one too few, or in another order of computation."""

from typing import Any

import torch

from kokoro_nb.faults.planting_site import FaultSite

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
