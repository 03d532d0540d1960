"""Conditions, loops, lists of tensors, and states that outlive a call."""

import torch
from torch import Tensor

from kokoro_nb.backends.mil.operators.registry import OperatorSite, StateContent, Value, ints, operator, table


@operator("cond")
def cond(site: OperatorSite, pred: Tensor) -> list[Value]:
    """Run the first program if the predicate is true, else the second."""
    assert site.run is not None
    return site.run(site.blocks[0 if pred else 1], [])


@operator("while_loop")
def while_loop(site: OperatorSite, loop_vars: list[Value]) -> list[Value]:
    """Run the second program on its own results for as long as the first returns true."""
    assert site.run is not None
    values = list(loop_vars)
    while bool(site.run(site.blocks[0], values)[0]):
        values = site.run(site.blocks[1], values)
    return values


@operator("list_read")
def list_read(ls: list[Value], index: int) -> Tensor:
    """Return what was written at a place.

    Raises
    ------
    IndexError
        If the list has no such place, or nothing was written there.
    """
    if not 0 <= index < len(ls) or ls[index] is None:
        raise IndexError(f"the list has nothing at place {index}")
    return ls[index]


@operator("list_scatter")
def list_scatter(ls: list[Value], indices: list[int], value: Tensor) -> list[Value]:
    """Return the list with several places written anew, grown to have them."""
    grown = [*ls, *[None] * (max(indices) + 1 - len(ls))]
    for place, one in zip(indices, value, strict=True):
        grown[place] = one
    return grown


@operator("coreml_update_state")
def coreml_update_state(state: StateContent, value: Tensor) -> Tensor:
    """Write a state and return what was written; a file has it as ``write_state`` and ``read_state``."""
    state.content = value
    return value


table(
    {
        "list_gather": lambda ls, indices: torch.stack([list_read(ls, index) for index in ints(indices)]),
        "make_list": lambda init_length, elem_shape, dynamic_length: [None] * int(init_length),
        "list_length": lambda ls: torch.tensor(len(ls), dtype=torch.int32),
        "list_write": lambda ls, index, value: list_scatter(ls, [int(index)], value[None]),
        "read_state": lambda input: input.content,
    }
)
