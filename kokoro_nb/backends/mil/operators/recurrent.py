"""Recurrent layers, conditions, loops, lists of tensors, and states that outlive a call.

The input's share of a layer's gates is computed for all steps at once, the state's step by step; the bias is added to
the sum of the two.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from kokoro_nb.backends.mil import accumulation
from kokoro_nb.backends.mil.operators.elementwise import biased, logistic, positive
from kokoro_nb.backends.mil.operators.registry import OperatorSite, StateContent, Value, ints, operator, table
from kokoro_nb.errors import InputError

Activation = Callable[[Tensor], Tensor]
State = tuple[Tensor, ...]
Cell = Callable[[Tensor, State], State]
ACTIVATIONS: dict[str, Activation] = {"sigmoid": logistic, "tanh": torch.tanh, "relu": positive, "linear": lambda x: x}


def _activation(site: OperatorSite, name: str) -> Activation:
    if name not in ACTIVATIONS:
        use = f"whose parameters MIL does not give; use {', '.join(ACTIVATIONS)}"
        raise InputError(f"{site.type} '{site.name}' has the activation {name}, {use}.")
    return ACTIVATIONS[name]


def _over_time(
    x: Tensor, weight: Tensor, state: State, cell: Cell, backwards: bool, whole: bool
) -> tuple[Tensor, State]:
    """Run `cell` on the projected input from step to step.

    Returns
    -------
    tuple
        Its first state after each step in the order of time, or only the last of them, and the last states.
    """
    projected, outputs = _projected(x, weight), []
    for step in projected.flip(0) if backwards else projected:
        state = cell(step, state)
        outputs.append(state[0])
    return torch.stack((outputs[::-1] if backwards else outputs) if whole else outputs[-1:]), state


def _projected(x: Tensor, weight: Tensor) -> Tensor:
    return accumulation.matmul(x, weight.transpose(0, 1))


@operator("lstm")
def lstm(
    site: OperatorSite,
    x: Tensor,
    initial_h: Tensor,
    initial_c: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    direction: str,
    output_sequence: bool,
    recurrent_activation: str,
    cell_activation: str,
    activation: str,
    bias: Tensor | None = None,
    peephole: Tensor | None = None,
    weight_ih_back: Tensor | None = None,
    weight_hh_back: Tensor | None = None,
    bias_back: Tensor | None = None,
    clip: Tensor | None = None,
) -> State:
    """Run an LSTM, its gates in the order input, forget, output, cell: forwards, backwards, or both side by side.

    Raises
    ------
    InputError
        For a clipped LSTM or one with a peephole, since MIL does not say of what, or an activation whose parameters it
        does not give.
    """
    if clip is not None or peephole is not None:
        what = "is clipped" if peephole is None else "has a peephole"
        raise InputError(f"lstm '{site.name}' {what}, and MIL does not say where; leave that out.")
    functions = [_activation(site, name) for name in (recurrent_activation, cell_activation, activation)]
    ways: list[tuple[Any, ...]] = [(weight_ih, weight_hh, bias, direction == "reverse")]
    if direction == "bidirectional":
        ways.append((weight_ih_back, weight_hh_back, bias_back, True))
    results = []
    starts = zip(initial_h.chunk(len(ways), -1), initial_c.chunk(len(ways), -1), strict=True)
    for (into, within, shift, backwards), start in zip(ways, starts, strict=True):
        cell = _lstm_cell(within, shift, *functions)
        outputs, state = _over_time(x, into, start, cell, backwards, output_sequence)
        results.append((outputs, *state))
    return tuple(torch.cat(parts, dim=-1) for parts in zip(*results, strict=True))


def _lstm_cell(weight: Tensor, bias: Tensor | None, gate: Activation, squash: Activation, out: Activation) -> Cell:
    def cell(step: Tensor, state: State) -> State:
        h, c = state
        i, f, o, z = biased(step + _projected(h, weight), bias).chunk(4, -1)
        c = gate(f) * c + gate(i) * squash(z)
        return gate(o) * out(c), c

    return cell


@operator("rnn", "gru")
def recurrent(
    site: OperatorSite,
    x: Tensor,
    initial_h: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    direction: str,
    output_sequence: bool,
    activation: str,
    recurrent_activation: str = "linear",
    bias: Tensor | None = None,
    reset_after: Tensor | None = None,
    input_bias: Tensor | None = None,
) -> State:
    """Run a simple recurrent layer or MIL's GRU, forwards or backwards.

    The gates of the GRU are in the order reset, output, update, and the bias of its output gate is not reset. torch
    resets that bias too: coremltools writes torch's GRU as a loop, not as this operator.

    Raises
    ------
    InputError
        For the parameters that iOS 18 adds, which MIL's description does not define.
    """
    if reset_after is not None or input_bias is not None:
        raise InputError(f"gru '{site.name}' has reset_after or input_bias, which MIL does not define; leave them out.")
    gate, out = _activation(site, recurrent_activation), _activation(site, activation)

    def rnn(step: Tensor, state: State) -> State:
        return (out(biased(step + _projected(state[0], weight_hh), bias)),)

    def gru(step: Tensor, state: State) -> State:
        (h,) = state
        parts = (None, None, None) if bias is None else bias.chunk(3)
        ri, oi, zi = step.chunk(3, -1)
        rh, oh, zh = _projected(h, weight_hh).chunk(3, -1)
        r, z = gate(biased(ri + rh, parts[0])), gate(biased(zi + zh, parts[2]))
        return ((1 - z) * out(biased(oi + r * oh, parts[1])) + z * h,)

    cell, backwards = gru if site.type == "gru" else rnn, direction == "reverse"
    outputs, (h,) = _over_time(x, weight_ih, (initial_h,), cell, backwards, output_sequence)
    return outputs, h


@operator("cond")
def cond(site: OperatorSite, pred: Tensor) -> list[Value]:
    """Run the first program if the predicate is true, else the second."""
    return site.blocks[0 if pred else 1]([])


@operator("while_loop")
def while_loop(site: OperatorSite, loop_vars: list[Value]) -> list[Value]:
    """Run the second program on its own results for as long as the first returns true."""
    values = list(loop_vars)
    while bool(site.blocks[0](values)[0]):
        values = site.blocks[1](values)
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
