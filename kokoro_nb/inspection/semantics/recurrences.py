"""LSTM, GRU and RNN with every attribute of ONNX: directions, lengths, layouts, activations, peepholes, clipping."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from scipy import special

from kokoro_nb.inspection.semantics.onnx_call import OnnxCall, meaning
from kokoro_nb.inspection.value_types import Array

Activation = Callable[[Array], Array]
Step = Callable[..., list[Array]]
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


def _unrolled(
    call: OnnxCall, defaults: tuple[str, ...], step: Step, x: Array, w: Array, r: Array, *more: Any, states: int = 1
) -> tuple[Array, ...]:
    """Run `step` over time in each direction: what it returns first is the output; rows past their length stay.

    It is given its activations, the product of a row with its bias, the recurrent weights and their bias, the states,
    and which direction it is.
    """
    b, lengths, *starts = [*more, *[None] * (2 + states)][: 2 + states]
    if call.get("layout", 0):
        x = x.swapaxes(0, 1)
        starts = [None if state is None else state.swapaxes(0, 1) for state in starts]
    (time, batch), (directions, gates), count = x.shape[:2], w.shape[:2], len(defaults)
    alphas, betas = iter(call.get("activation_alpha", ())), iter(call.get("activation_beta", ()))
    names = [one.decode() if isinstance(one, bytes) else one for one in call.get("activations", defaults * directions)]
    functions = [activation(name, alphas, betas) for name in names]
    biases = np.zeros((directions, 2 * gates), x.dtype) if b is None else b
    lengths = np.full(batch, time) if lengths is None else lengths
    outputs = np.zeros((time, directions, batch, r.shape[-1]), x.dtype)
    last: list[list[Array]] = []
    for d in range(directions):
        backwards = call.get("direction", "forward") == "reverse" or d == 1
        state = [np.zeros((batch, r.shape[-1]), x.dtype) if s is None else s[d].copy() for s in starts]
        for t in range(time):
            live = (t < lengths)[:, None]
            rows = np.where(t < lengths, lengths - 1 - t, t) if backwards else np.full(batch, t)
            given = x[rows, np.arange(batch)] @ w[d].T + biases[d, :gates]
            new = step(functions[count * d :][:count], given, r[d], biases[d, gates:], state, d)
            state = [np.where(live, after, before) for after, before in zip(new, state, strict=True)]
            outputs[rows, d, np.arange(batch)] = np.where(live, new[0], 0)
        last.append(state)
    finals = [np.stack(each) for each in zip(*last, strict=True)]
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
    p = more[4] if len(more) > 4 else None

    def step(functions: Any, given: Array, r: Array, bias: Array, state: list[Array], d: int) -> list[Array]:
        (f, g, out), (h, c) = functions, state
        i, o, forget, cell = np.split(given + rounded(h) @ r.T + bias, 4, axis=-1)
        pi, po, pf = np.split(p[d], 3) if p is not None else (0, 0, 0)
        entered = f(_clipped(call, i + pi * c))
        kept = 1 - entered if call.get("input_forget", 0) else f(_clipped(call, forget + pf * c))
        c = kept * c + entered * g(_clipped(call, cell))
        return [f(_clipped(call, o + po * c)) * out(c), c]

    return _unrolled(call, ("Sigmoid", "Tanh", "Tanh"), step, x, w, r, *more[:4], states=2)


@meaning("GRU")
def _gru(call: OnnxCall, *inputs: Any) -> tuple[Array, ...]:
    def step(functions: Any, given: Array, r: Array, bias: Array, state: list[Array], d: int) -> list[Array]:
        (f, g), (h,) = functions, state
        wz, wr, wh = np.split(given, 3, axis=-1)
        (rz, rr, rh), (bz, br, bh) = np.split(r, 3), np.split(bias, 3)
        z = f(_clipped(call, wz + h @ rz.T + bz))
        reset = f(_clipped(call, wr + h @ rr.T + br))
        kept = reset * (h @ rh.T + bh) if call.get("linear_before_reset", 0) else (reset * h) @ rh.T + bh
        return [(1 - z) * g(_clipped(call, wh + kept)) + z * h]

    return _unrolled(call, ("Sigmoid", "Tanh"), step, *inputs)


@meaning("RNN")
def _rnn(call: OnnxCall, *inputs: Any) -> tuple[Array, ...]:
    def step(functions: Any, given: Array, r: Array, bias: Array, state: list[Array], d: int) -> list[Array]:
        return [functions[0](_clipped(call, given + state[0] @ r.T + bias))]

    return _unrolled(call, ("Tanh",), step, *inputs)
