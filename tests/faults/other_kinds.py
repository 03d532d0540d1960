"""Kinds of faults that tests alone plant: of what an operator reads, of its arguments, of its weights."""

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch

from kokoro_nb.faults.kinds import ATEN, KINDS, FaultKind, adds_epsilon, in_channel, is_float
from kokoro_nb.faults.planting_site import FaultSite

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


def infinite_channel(site: FaultSite) -> None:
    """Make one channel infinite: the exponential of something above 1000."""
    emit = site.emit
    in_channel(site, lambda one: emit(ATEN.exp.default, emit(ATEN.add.Tensor, emit(ATEN.mul.Tensor, one, one), 1e3)))


def saturated(site: FaultSite) -> None:
    """Clamp to -0.25 and 0.25."""
    site.give(site.emit(ATEN.clamp.default, site.node, -0.25, 0.25))


def shifted(site: FaultSite) -> None:
    """Shift by one along the last axis; the last element is repeated."""
    last, size = site.value.ndim - 1, site.value.shape[-1]
    rest = site.emit(ATEN.slice.Tensor, site.node, last, 1, size)
    edge = site.emit(ATEN.slice.Tensor, site.node, last, size - 1, size)
    site.give(site.emit(ATEN.cat.default, [rest, edge], last))


def is_one_of_equals(site: FaultSite) -> bool:
    """Return whether the result is the first of several of one shape."""
    values = site.node.args[0].meta["val"] if site.is_element and site.node.args[1] == 0 else ()
    return len(values) > 1 and len({(value.shape, value.dtype) for value in values}) == 1


def swapped_results(site: FaultSite) -> None:
    """Give the results of one operator in the opposite order."""
    several = site.node.args[0]
    elements = {user.args[1]: user for user in several.users}
    count, axis = len(several.meta["val"]), min(1, site.value.ndim - 1)
    parts = [elements.get(place) or site.emit(operator.getitem, several, place) for place in range(count)]
    order = {node: place for place, node in enumerate(site.node.graph.nodes)}
    site._last = max((site._last, *parts), key=order.__getitem__)
    joined = site.emit(ATEN.cat.default, parts[::-1], axis)
    again = site.emit(ATEN.split.Tensor, joined, site.value.shape[axis], axis)
    for place, part in elements.items():
        site.give(site.emit(operator.getitem, again, place), instead=part)


def has_scalar(site: FaultSite) -> bool:
    """Return whether the operator combines a float tensor with a number that is no epsilon."""
    return site.op in ARITHMETIC and _scalar(site) is not None and not adds_epsilon(site)


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


ORDERED = ("aten.sub.Tensor", "aten.div.Tensor", "aten.atan2.default", "aten.pow.Tensor_Tensor", "aten.where.self")


def is_ordered(site: FaultSite) -> bool:
    """Return whether two operands that are tensors can be exchanged, or the inputs of a concatenation."""
    if site.op == "aten.cat.default":
        return len(site.arguments["tensors"]) > 1
    return site.op in ORDERED and _are_two(_operands(site))


def swapped_operands(site: FaultSite) -> None:
    """Exchange the operands, or have a concatenation take its inputs from the last to the first."""
    if site.op == "aten.cat.default":
        site.call(tensors=list(site.arguments["tensors"])[::-1])
        return
    (first, a), (second, b) = _operands(site).items()
    site.call(**{first: b, second: a})


def is_addition(site: FaultSite) -> bool:
    """Return whether the operator adds two tensors, of which the first has the shape of the sum."""
    operands = _operands(site)
    return (
        site.op == "aten.add.Tensor"
        and _are_two(operands)
        and operands["self"].meta["val"].shape == site.value.shape
        and site.value.is_floating_point()
    )


def lost_operand(site: FaultSite) -> None:
    """Leave out the second term of a sum: multiply it by 1e-30."""
    site.call(other=site.emit(torch.ops.aten.mul.Tensor, site.arguments["other"], 1e-30, ahead=True))


def stale_input(site: FaultSite) -> None:
    """Read the tensor before: of an input, what it was computed from, as if its memory had not been written again."""
    site.node.replace_input_with(*site.random.choice(stale(site)))


def _operands(site: FaultSite) -> dict[str, Any]:
    """Return the arguments that are tensors."""
    return {name: value for name, value in site.arguments.items() if hasattr(value, "meta") and name != "condition"}


def _are_two(operands: dict[str, Any]) -> bool:
    return len(operands) == 2 and len({id(operand) for operand in operands.values()}) == 2


def stale(site: FaultSite) -> Sequence[tuple[Any, Any]]:
    """Return each input with a tensor of its shape and dtype that it was itself computed from.

    Somebody else reads the input too: one that nobody reads any more would be left out by every compiler.
    """
    found = []
    for fresh in (node for node in site.node.all_input_nodes if len(node.users) > 1):
        for before in fresh.all_input_nodes:
            # the result of an operator: its memory is written again and again
            if before is not fresh and before.op == "call_function" and _alike(before, fresh):
                found.append((fresh, before))
    return found


def _alike(a: Any, b: Any) -> bool:
    x, y = a.meta.get("val"), b.meta.get("val")
    if not hasattr(x, "stride") or not hasattr(y, "stride"):
        return False
    return x.shape == y.shape and x.dtype == y.dtype and x.is_floating_point()


def stored(site: FaultSite) -> str | None:
    """Return the name of the parameter that is the weight, if nothing else reads it."""
    node, names = site.arguments.get("weight"), site.program.graph_signature.inputs_to_parameters
    name = names.get(getattr(node, "name", None))
    return name if name is not None and len(node.users) == 1 and list(names.values()).count(name) == 1 else None


def constant(site: FaultSite) -> Any:
    """Return the parameter that `stored` names."""
    return site.program.state_dict[stored(site)].detach()


def store(site: FaultSite, tensor: Any) -> None:
    """Put another tensor in the place of the one that `stored` names."""
    grad = site.program.state_dict[stored(site)].requires_grad
    site.program.state_dict[stored(site)] = torch.nn.Parameter(tensor, grad)


def has_weight(site: FaultSite) -> bool:
    """Return whether the operator alone reads a float weight."""
    return stored(site) is not None and constant(site).is_floating_point()


def has_square_weight(site: FaultSite) -> bool:
    """Return whether the first two axes of that weight can be exchanged, and are not the same."""
    if not has_weight(site) or constant(site).ndim < 2:
        return False
    rows, columns = constant(site).shape[:2]
    return bool(rows == columns > 1)


def has_kernel(site: FaultSite) -> bool:
    """Return whether that weight has an axis of two elements or more after the first."""
    return has_weight(site) and any(size > 1 for size in constant(site).shape[1:])


def transposed_weight(site: FaultSite) -> None:
    """Exchange the first two axes of the weight."""
    store(site, constant(site).transpose(0, 1).contiguous())


def reversed_weight(site: FaultSite) -> None:
    """Reverse the last axis of the weight that has two elements or more: a correlation becomes a convolution."""
    weight = constant(site)
    axis = max(axis for axis in range(1, weight.ndim) if weight.shape[axis] > 1)
    store(site, weight.flip(axis))


def perturbed_weight(site: FaultSite) -> None:
    """Add the weight's largest absolute value to one of its elements."""
    weight = constant(site).clone()
    weight.view(-1)[site.random.randrange(weight.numel())] += weight.abs().max()
    store(site, weight)


def half_weight(site: FaultSite) -> None:
    """Round the weight to float16."""
    weight = constant(site)
    store(site, weight.half().to(weight.dtype))


def zeroed_weight(site: FaultSite) -> None:
    """Make the weights of one output zero."""
    weight = constant(site).clone()
    weight[site.random.randrange(weight.shape[0])] = 0
    store(site, weight)


def _is(*operators: str) -> Callable[[FaultSite], bool]:
    return lambda site: site.op in operators


_WHERE = {
    is_float: (infinite_channel, saturated),
    has_weight: (perturbed_weight, half_weight, zeroed_weight),
    **{has_scalar: (wrong_scalar,), is_ordered: (swapped_operands,), is_addition: (lost_operand,)},
    **{is_reduction: (short_reduction,), is_dilatable: (wrong_dilation,), is_reflected: (wrong_padding,)},
    **{has_square_weight: (transposed_weight,), has_kernel: (reversed_weight,), _is(*FUNCTIONS): (wrong_function,)},
    **{
        is_one_of_equals: (swapped_results,),
        _is("aten.exp.default"): (overflow,),
        _is("aten.clamp.default"): (unclamped,),
    },
    _is("aten.leaky_relu.default", "aten.gelu.default"): (wrong_activation,),
    lambda site: is_float(site) and site.value.shape[-1] > 1: (shifted,),
    lambda site: deviated(site) is not None: (one_pass_variance,),
    lambda site: not site.is_element and bool(stale(site)): (stale_input,),
    lambda site: moved(site) is not None: (off_by_one,),
}
OTHERS = tuple(FaultKind(kind, where) for where, kinds in _WHERE.items() for kind in kinds)
KINDS.update({kind.apply.__name__: kind for kind in OTHERS})
