"""Conditions, loops, lists of tensors, and states that outlive a call."""

import torch
from torch import Tensor

from kokoro_nb.backends.mil.operators.registry import Site, Slot, Value, operator


@operator("cond")
def cond(site: Site, pred: Tensor) -> list[Value]:
    """Run the first program if the predicate is true, else the second."""
    assert site.run is not None
    return site.run(site.blocks[0 if pred else 1], [])


@operator("while_loop")
def while_loop(site: Site, loop_vars: list[Value]) -> list[Value]:
    """Run the second program on its own results for as long as the first says so."""
    assert site.run is not None
    values = list(loop_vars)
    while bool(site.run(site.blocks[0], values)[0]):
        values = site.run(site.blocks[1], values)
    return values


@operator("make_list")
def make_list(site: Site, init_length: Tensor, elem_shape: list[Value], dtype: str, dynamic_length: Tensor) -> Value:
    """Return a list with nothing in its places."""
    return [None] * int(init_length)


@operator("list_length")
def list_length(site: Site, ls: list[Value]) -> Tensor:
    """Return the number of places."""
    return torch.tensor(len(ls), dtype=torch.int32)


@operator("list_read")
def list_read(site: Site, ls: list[Value], index: Tensor) -> Tensor:
    """Return what was written at a place.

    Raises
    ------
    IndexError
        If the list has no such place, or nothing was written there.
    """
    place = int(index)
    if not 0 <= place < len(ls) or ls[place] is None:
        raise IndexError(f"the list has nothing at place {place}")
    return ls[place]


@operator("list_write")
def list_write(site: Site, ls: list[Value], index: Tensor, value: Tensor) -> Value:
    """Return the list with a place written anew, grown to have that place."""
    return _written(ls, [int(index)], [value])


@operator("list_gather")
def list_gather(site: Site, ls: list[Value], indices: Tensor) -> Tensor:
    """Return what was written at several places, stacked."""
    return torch.stack([list_read(site, ls, index) for index in indices])


@operator("list_scatter")
def list_scatter(site: Site, ls: list[Value], indices: Tensor, value: Tensor) -> Value:
    """Return the list with several places written anew, grown to have them."""
    return _written(ls, indices.tolist(), list(value))


def _written(ls: list[Value], places: list[int], values: list[Tensor]) -> list[Value]:
    grown = [*ls, *[None] * (max(places) + 1 - len(ls))]
    for place, value in zip(places, values, strict=True):
        grown[place] = value
    return grown


@operator("read_state")
def read_state(site: Site, input: Slot) -> Tensor:
    """Return the content of a state."""
    return input.content


@operator("coreml_update_state")
def coreml_update_state(site: Site, state: Slot, value: Tensor) -> Tensor:
    """Write a state and return what was written; a file has it as ``write_state`` and ``read_state``."""
    state.content = value
    return value
