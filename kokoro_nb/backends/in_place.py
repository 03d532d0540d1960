"""Operators that write to what they are given, and when another that makes a new tensor can stand in their place."""

from typing import Any

from kokoro_nb.backends.called_operators import is_composite


def is_mutable(node: Any) -> bool:
    """Return whether a node calls an operator that can change what it is given, be it no element of it."""
    schema = getattr(node.target, "_schema", None)
    return schema is not None and schema.is_mutable


def writes(node: Any) -> bool:
    """Return whether a node calls an operator that can write to the elements of what it is given."""
    return is_mutable(node) and not leaves_alone(node)


def leaves_alone(node: Any) -> bool:
    """Return whether a node gives what it is given, and writes to what no operator reads: how its gradient is found."""
    return str(node.target) == "aten.detach_.default"


def without_writing(node: Any) -> Any | None:
    """Return the operator that makes a new tensor where this one writes to the first that it is given.

    None where there is none, where its result may be of another dtype, or where somebody else may see what is written:
    through an input, a buffer, or part of a tensor.
    """
    import torch

    packet, overload = node.target.overloadpacket.__name__, node.target._overloadname
    target = getattr(getattr(torch.ops.aten, packet.removesuffix("_"), None), overload, None)
    if target is None or node.target.namespace != "aten" or not packet.endswith("_"):
        return None
    if len({one.meta["val"].dtype for one in node.all_input_nodes}) > 1:
        return None
    return target if all(map(_is_alone, same_tensor(node))) else None


def same_tensor(node: Any) -> list[Any]:
    """Return the nodes whose results are the tensor that a node writes to, what writes to it included."""
    first = node.args[0]
    while writes(first):
        first = first.args[0]
    found, pending = [], [first]
    while pending:
        found.append(pending.pop())
        pending += [user for user in found[-1].users if writes(user) and user.args[0] is found[-1]]
    return found


def _is_alone(node: Any) -> bool:
    """Return whether nothing else shares memory with a result: it is new, and nobody takes a view of it."""
    others = [user for user in node.users if user.op != "output" and not (writes(user) and user.args[0] is node)]
    return (writes(node) or _makes_new(node)) and all(map(_makes_new, others))


def _makes_new(node: Any) -> bool:
    """Return whether the result of a node is in memory of its own."""
    import torch

    if not isinstance(node.target, torch._ops.OpOverload) or any(one.alias_info for one in node.target._schema.returns):
        return False
    return not is_composite(node.target) or str(node.target) in _NEW


# others that are made of operators may return what they are given, and their schema is silent
_NEW = frozenset(f"aten.{name}.default" for name in ("conv1d", "linear", "matmul"))
