"""Recurrent layers against torch's in float64, or written out, with MIL's order of the gates; products of matrices."""

import math

import numpy as np
import pytest
import torch

from kokoro_nb.backends.mil.operators import OPERATORS
from kokoro_nb.backends.mil.operators.registry import OperatorSite
from kokoro_nb.backends.mil.rounding import STRICT
from kokoro_nb.errors import InputError
from tests.backends.mil.conftest import drawing

_x = drawing()
STEPS, BATCH, WIDE, HIDDEN = 5, 2, 3, 4


def _weights(gates):
    return {"weight_ih": _x(gates * HIDDEN, WIDE), "weight_hh": _x(gates * HIDDEN, HIDDEN), "bias": _x(gates * HIDDEN)}


X, H, C = _x(STEPS, BATCH, WIDE), _x(BATCH, HIDDEN), _x(BATCH, HIDDEN)
START = {"x": X, "initial_h": H}
ONE_WAY = {**START, "initial_c": C}
TWO_WAYS = {"x": X, "initial_h": np.concatenate([H, -H], 1), "initial_c": np.concatenate([C, -C], 1)}
WEIGHTS, SIMPLE, GATED = _weights(4), _weights(1), _weights(3)
BACK = {f"{name}_back": -array[::-1].copy() for name, array in WEIGHTS.items()}
PEEP = _x(3 * HIDDEN)
HOLED = X.copy()
HOLED[2, 0, 1] = np.nan


def _swapped(array):
    """Turn MIL's gates, input forget output cell, into torch's, input forget cell output."""
    i, f, o, z = np.split(array, 4)
    return torch.tensor(np.concatenate([i, f, z, o])).double()


def _lstm(inputs, weights, direction="forward", sequence=True, **more):
    """Return a case against torch's LSTM."""
    both, backwards = direction == "bidirectional", direction == "reverse"

    def expected(x, initial_h, initial_c):
        layer = torch.nn.LSTM(WIDE, HIDDEN, bidirectional=both).double()
        state = {}
        for suffix, tail in (("", ""), ("_reverse", "_back"))[: 1 + both]:
            bias = weights.get(f"bias{tail}", np.zeros(4 * HIDDEN, "float32"))
            state[f"weight_ih_l0{suffix}"] = _swapped(weights[f"weight_ih{tail}"])
            state[f"weight_hh_l0{suffix}"] = _swapped(weights[f"weight_hh{tail}"])
            state[f"bias_ih_l0{suffix}"] = _swapped(bias)
            state[f"bias_hh_l0{suffix}"] = torch.zeros(4 * HIDDEN).double()
        layer.load_state_dict(state)
        starts = [torch.stack(start.chunk(1 + both, -1)) for start in (initial_h, initial_c)]
        with torch.no_grad():
            outputs, (h, c) = layer(x.flip(0) if backwards else x, tuple(starts))
        outputs = outputs.flip(0) if backwards else outputs
        h, c = (torch.cat(list(state), -1) for state in (h, c))
        return outputs if sequence else h[None], h, c

    return _case(inputs, expected, **weights, direction=direction, output_sequence=sequence, **more)


def _written_out(inputs, weights, cell, direction="forward", sequence=True, **more):
    """Return a case against `cell` called step by step: (step, its projection of h, bias, *states) -> states."""
    backwards = direction == "reverse"

    def expected(x, **starts):
        wi, wh = (torch.tensor(weights[name]).double() for name in ("weight_ih", "weight_hh"))
        states, outputs = tuple(starts.values()), []
        for step in x.flip(0) if backwards else x:
            states = cell(step @ wi.T, states[0] @ wh.T, torch.tensor(weights["bias"]).double(), *states)
            outputs.append(states[0])
        outputs = torch.stack(outputs[::-1] if backwards else outputs)
        return outputs if sequence else states[0][None], *states

    return _case(inputs, expected, **weights, direction=direction, output_sequence=sequence, **more)


def _case(inputs, expected, **more):
    if more.get("direction") == "forward":
        del more["direction"]  # the default
    # some 5 steps of sums of 7 products, squashed: float16 has 3 digits
    return {"inputs": inputs, "expected": expected, "strict": 0.03, **more}


def _relu_and_linear(projected, recurrent, bias, h, c):
    i, f, o, z = (projected + recurrent + bias).chunk(4, -1)
    new = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.relu(z)
    return torch.sigmoid(o) * new, new


def _gru(projected, recurrent, bias, h):
    (ri, oi, zi), (rh, oh, zh), (rb, ob, zb) = (one.chunk(3, -1) for one in (projected, recurrent, bias))
    r, z = torch.sigmoid(ri + rh + rb), torch.sigmoid(zi + zh + zb)
    return ((1 - z) * torch.tanh(oi + r * oh + ob) + z * h,)


def _rnn(function, **more):
    return _written_out(START, SIMPLE, lambda into, within, bias, h: (function(into + within + bias),), **more)


def _without_bias(weights):
    return {name: array for name, array in weights.items() if "bias" not in name}


CASES = {
    "lstm": [
        _lstm(ONE_WAY, WEIGHTS, "reverse", False),
        _lstm(ONE_WAY, _without_bias(WEIGHTS)),
        _lstm(TWO_WAYS, WEIGHTS | BACK, "bidirectional"),
        _lstm(TWO_WAYS, _without_bias(WEIGHTS | BACK), "bidirectional", False),
        _written_out(ONE_WAY, WEIGHTS, _relu_and_linear, cell_activation="relu", activation="linear", half=False),
        _lstm({**ONE_WAY, "x": HOLED}, WEIGHTS, half=False),
    ],
    "rnn": [
        _rnn(torch.relu, direction="reverse", activation="relu"),
        _rnn(torch.sigmoid, sequence=False, activation="sigmoid"),
        _rnn(lambda x: x, activation="linear", half=False),  # nothing squashes it: it grows
    ],
    "gru": [_written_out(START, GATED, _gru), _written_out(START, GATED, _gru, "reverse", False)],
}


LATER = {"opset": "iOS18"}
REFUSED = [
    ("lstm", ONE_WAY, WEIGHTS | LATER | {"clip": 1.0}, "lstm 'result' is clipped, and MIL does not say where"),
    ("lstm", ONE_WAY, WEIGHTS | LATER | {"peephole": PEEP}, "lstm 'result' has a peephole"),
    ("lstm", ONE_WAY, WEIGHTS | LATER | {"activation": "hard_sigmoid"}, "the activation hard_sigmoid, whose param"),
    ("gru", START, GATED | LATER | {"reset_after": True}, "gru 'result' has reset_after or input_bias"),
]


def _attention(query, key, value, attn_mask=None):
    scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
    if attn_mask is not None:
        scores = scores.masked_fill(~attn_mask, -math.inf) if attn_mask.dtype == torch.bool else scores + attn_mask
    return torch.softmax(scores, -1) @ value


HEADS = {"query": _x(2, 3, 4, 8), "key": _x(2, 3, 5, 8), "value": _x(2, 3, 5, 6)}
LOWER = np.tril(np.ones((4, 5), bool))
NOBODY = LOWER & (np.arange(4) > 0)[:, None]  # a row of NaN
WHOLE = np.arange(-6, 6, dtype="int32").reshape(3, 4)
ODD = np.array([[1.0, np.inf], [np.nan, 0.0]], "float32")

CASES |= {
    "matmul": [
        {"inputs": {"x": _x(7, 3), "y": _x(2, 7)}, "transpose_x": True, "transpose_y": True},
        {"inputs": {"x": _x(2, 1, 3, 7), "y": _x(4, 7, 2)}, "transpose_x": False, "transpose_y": False},
        # with (4, 7, 2) coremltools infers a wrong shape
        {"inputs": {"x": _x(7), "y": _x(7, 2)}, "transpose_x": False, "transpose_y": False},
        {"inputs": {"x": np.arange(6, dtype="int32").reshape(2, 3), "y": WHOLE}},
        {"inputs": {"x": ODD, "y": np.array([[1.0], [0.0]], "float32")}},
    ],
    "linear": [
        {"inputs": _x(2, 3, 7), "weight": _x(5, 7), "bias": _x(5)},
        {"inputs": _x(7), "weight": _x(5, 7), "bias": _x(5)},
    ],
    "einsum": [
        {"inputs": {"values": [_x(2, 3, 4, 5), _x(2, 5, 4, 6)]}, "equation": "nchw,nwhu->nchu"},
        {"inputs": {"values": [_x(3, 4, 5), _x(5, 4, 6)]}, "equation": "chw,whr->chr"},
        {"inputs": {"values": [_x(3, 1, 5), _x(5, 4, 6)]}, "equation": "abc,cbd->abd"},
    ],
    "scaled_dot_product_attention": [
        {"inputs": {**HEADS, **mask}, "expected": _attention, "opset": "iOS18"}
        for mask in ({}, *({"attn_mask": one} for one in (LOWER, _x(4, 5), NOBODY)))
    ],
}


def test_a_weight_of_another_precision_is_taken_in_that_of_the_input(mil):
    x, weight = _x(3, 7).astype("float16"), _x(5, 7)
    (wide,) = mil.run("linear", x, weight=weight, bias=_x(5))
    (strict,) = mil.run("linear", x, weight=weight, arithmetic=STRICT)
    assert wide.dtype == strict.dtype == np.float16
    np.testing.assert_allclose(strict, x.astype("float64") @ weight.T, atol=0.01)


def test_an_equation_that_mil_does_not_know_is_refused():
    site = OperatorSite("einsum", "product", 8, (torch.float32,))
    with pytest.raises(InputError, match="has the equation ab,bc->ac, and MIL knows"):
        OPERATORS["einsum"](site, values=[torch.ones(2, 2)] * 2, equation="ab,bc->ac")
