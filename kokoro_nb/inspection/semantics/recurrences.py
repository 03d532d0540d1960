"""LSTM, GRU and RNN with every attribute of ONNX: directions, lengths, layouts, activations, peepholes, clipping."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from scipy import special

from kokoro_nb.inspection.semantics.onnx_call import OnnxCall, meaning
from kokoro_nb.inspection.value_types import Array, Input

Activation = Callable[[Array], Array]
Step = Callable[[int, Array, list[Array]], list[Array]]
_PLAIN: dict[str, Activation] = {
    "sigmoid": special.expit,
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0),
    "softsign": lambda x: x / (1 + np.abs(x)),
    "softplus": lambda x: np.logaddexp(0, x),
}
_SHAPED: dict[str, tuple[float, float, Callable[..., Array]]] = {
    "affine": (1.0, 0.0, lambda x, a, b: a * x + b),
    "leakyrelu": (0.01, 0.0, lambda x, a, b: np.where(x < 0, a * x, x)),
    "thresholdedrelu": (1.0, 0.0, lambda x, a, b: np.where(x > a, x, 0)),
    "scaledtanh": (1.0, 1.0, lambda x, a, b: a * np.tanh(b * x)),
    "hardsigmoid": (0.2, 0.5, lambda x, a, b: np.clip(a * x + b, 0, 1)),
    "elu": (1.0, 0.0, lambda x, a, b: np.where(x < 0, a * np.expm1(x), x)),
    "clip": (-np.inf, np.inf, lambda x, a, b: np.clip(x, a, b)),
}


def activation(name: str, alphas: Iterator[float], betas: Iterator[float]) -> Activation:
    """Return an activation by its name, whose numbers are the next of those given, or their defaults."""
    if name.lower() in _PLAIN:
        return _PLAIN[name.lower()]
    alpha, beta, function = _SHAPED[name.lower()]
    return partial(function, a=next(alphas, alpha), b=next(betas, beta))


def _activations(call: OnnxCall, defaults: tuple[str, ...], directions: int) -> list[Activation]:
    """Return the activations of all directions, in order."""
    names = list(call.get("activations", defaults * directions))
    names = [name.decode() if isinstance(name, bytes) else name for name in names]
    alphas, betas = iter(call.get("activation_alpha", ())), iter(call.get("activation_beta", ()))
    return [activation(name, alphas, betas) for name in names]


def _unrolled(
    call: OnnxCall, x: Array, lengths: Input, states: list[Input], hidden: int, step: Step
) -> tuple[Array, ...]:
    """Run `step` over time in each direction: what it returns first is the output; rows past their length stay."""
    if call.get("layout", 0):
        x = x.swapaxes(0, 1)
        states = [None if state is None else state.swapaxes(0, 1) for state in states]
    time, batch = x.shape[:2]
    direction = call.get("direction", "forward")
    directions = 2 if direction == "bidirectional" else 1
    lengths = np.full(batch, time) if lengths is None else lengths
    outputs = np.zeros((time, directions, batch, hidden), x.dtype)
    last: list[list[Array]] = []
    for d in range(directions):
        backwards = direction == "reverse" or d == 1
        state = [np.zeros((batch, hidden), x.dtype) if s is None else s[d].copy() for s in states]
        for t in range(time):
            live = (t < lengths)[:, None]
            rows = np.where(t < lengths, lengths - 1 - t, t) if backwards else np.full(batch, t)
            new = step(d, x[rows, np.arange(batch)], state)
            state = [np.where(live, after, before) for after, before in zip(new, state, strict=True)]
            outputs[rows, d, np.arange(batch)] = np.where(live, new[0], 0)
        last.append(state)
    finals = [np.stack([state[k] for state in last]) for k in range(len(states))]
    if call.get("layout", 0):
        return (outputs.transpose(2, 0, 1, 3), *(final.swapaxes(0, 1) for final in finals))
    return (outputs, *finals)


def _clipped(call: OnnxCall, x: Array) -> Array:
    limit = call.get("clip")
    return np.clip(x, -limit, limit) if limit else x


@meaning("LSTM")
def lstm(
    call: OnnxCall, x: Array, w: Array, r: Array, *more: Any, rounded: Activation = np.asarray
) -> tuple[Array, ...]:
    """Return Y, Y_h and Y_c; weights as (directions, 4 hidden, width), gates in the order i, o, f, c.

    `rounded` is what the runtime does to the state before each product.
    """
    b, lengths, h0, c0, p = [*more, *[None] * 5][:5]
    hidden, directions = r.shape[-1], w.shape[0]
    functions = _activations(call, ("Sigmoid", "Tanh", "Tanh"), directions)

    def step(d: int, row: Array, state: list[Array]) -> list[Array]:
        h, c = state
        f, g, out = functions[3 * d : 3 * d + 3]
        gates = row @ w[d].T + rounded(h) @ r[d].T
        if b is not None:
            gates = gates + b[d, : 4 * hidden] + b[d, 4 * hidden :]
        i, o, forget, cell = np.split(gates, 4, axis=-1)
        pi, po, pf = np.split(p[d], 3) if p is not None else (0, 0, 0)
        entered = f(_clipped(call, i + pi * c))
        kept = 1 - entered if call.get("input_forget", 0) else f(_clipped(call, forget + pf * c))
        c = kept * c + entered * g(_clipped(call, cell))
        return [f(_clipped(call, o + po * c)) * out(c), c]

    return _unrolled(call, x, lengths, [h0, c0], hidden, step)


@meaning("GRU")
def _gru(
    call: OnnxCall, x: Array, w: Array, r: Array, b: Input = None, lengths: Input = None, h0: Input = None
) -> tuple[Array, ...]:
    hidden, directions = r.shape[-1], w.shape[0]
    functions = _activations(call, ("Sigmoid", "Tanh"), directions)
    biases = np.zeros((directions, 6 * hidden), x.dtype) if b is None else b

    def step(d: int, row: Array, state: list[Array]) -> list[Array]:
        (h,) = state
        f, g = functions[2 * d : 2 * d + 2]
        wz, wr, wh = np.split(row @ w[d].T + biases[d, : 3 * hidden], 3, axis=-1)
        rz, rr, rh = np.split(r[d], 3)
        bz, br, bh = np.split(biases[d, 3 * hidden :], 3)
        z = f(_clipped(call, wz + h @ rz.T + bz))
        reset = f(_clipped(call, wr + h @ rr.T + br))
        if call.get("linear_before_reset", 0):
            new = g(_clipped(call, wh + reset * (h @ rh.T + bh)))
        else:
            new = g(_clipped(call, wh + (reset * h) @ rh.T + bh))
        return [(1 - z) * new + z * h]

    return _unrolled(call, x, lengths, [h0], hidden, step)


@meaning("RNN")
def _rnn(
    call: OnnxCall, x: Array, w: Array, r: Array, b: Input = None, lengths: Input = None, h0: Input = None
) -> tuple[Array, ...]:
    hidden, directions = r.shape[-1], w.shape[0]
    functions = _activations(call, ("Tanh",), directions)

    def step(d: int, row: Array, state: list[Array]) -> list[Array]:
        total: Any = row @ w[d].T + state[0] @ r[d].T
        if b is not None:
            total = total + b[d, :hidden] + b[d, hidden:]
        return [functions[d](_clipped(call, total))]

    return _unrolled(call, x, lengths, [h0], hidden, step)
