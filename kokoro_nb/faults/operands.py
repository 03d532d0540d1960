"""Faults of what an operator reads: another tensor than the model's, or one too few."""

from collections.abc import Sequence
from typing import Any

import torch

from kokoro_nb.faults.planting_site import FaultSite

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


def has_bias(site: FaultSite) -> bool:
    """Return whether the operator adds a bias."""
    return "weight" in site.arguments and site.arguments.get("bias") is not None


def dropped_bias(site: FaultSite) -> None:
    """Leave the bias out."""
    site.call(bias=None)


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


WEIGHT = "weight"


def has_weight(site: FaultSite) -> bool:
    """Return whether the operator alone reads a float weight."""
    return site.stored(WEIGHT) is not None and site.constant(WEIGHT).is_floating_point()


def has_square_weight(site: FaultSite) -> bool:
    """Return whether the first two axes of that weight can be exchanged, and are not the same."""
    if not has_weight(site) or site.constant(WEIGHT).ndim < 2:
        return False
    rows, columns = site.constant(WEIGHT).shape[:2]
    return bool(rows == columns > 1)


def has_kernel(site: FaultSite) -> bool:
    """Return whether that weight has an axis of two elements or more after the first."""
    return has_weight(site) and any(size > 1 for size in site.constant(WEIGHT).shape[1:])


def transposed_weight(site: FaultSite) -> None:
    """Exchange the first two axes of the weight."""
    site.store(WEIGHT, site.constant(WEIGHT).transpose(0, 1).contiguous())


def reversed_weight(site: FaultSite) -> None:
    """Reverse the last axis of the weight that has two elements or more: a correlation becomes a convolution."""
    weight = site.constant(WEIGHT)
    axis = max(axis for axis in range(1, weight.ndim) if weight.shape[axis] > 1)
    site.store(WEIGHT, weight.flip(axis))


def perturbed_weight(site: FaultSite) -> None:
    """Add the weight's largest absolute value to one of its elements."""
    weight = site.constant(WEIGHT).clone()
    weight.view(-1)[site.random.randrange(weight.numel())] += weight.abs().max()
    site.store(WEIGHT, weight)


def half_weight(site: FaultSite) -> None:
    """Round the weight to float16."""
    weight = site.constant(WEIGHT)
    site.store(WEIGHT, weight.half().to(weight.dtype))


def zeroed_weight(site: FaultSite) -> None:
    """Make the weights of one output zero."""
    weight = site.constant(WEIGHT).clone()
    weight[site.random.randrange(weight.shape[0])] = 0
    site.store(WEIGHT, weight)
