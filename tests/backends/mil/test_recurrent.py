"""Recurrent layers against torch's in float64, with MIL's order of the gates."""

import numpy as np
import pytest
import torch

from kokoro_nb.errors import InputError

GENERATOR = np.random.default_rng(0)
STEPS, BATCH, WIDE, HIDDEN = 5, 2, 3, 4


def _x(*shape):
    return GENERATOR.normal(size=shape).astype("float32")


X, H, C = _x(STEPS, BATCH, WIDE), _x(BATCH, HIDDEN), _x(BATCH, HIDDEN)
H2, C2 = np.concatenate([H, -H], 1), np.concatenate([C, -C], 1)
WEIGHTS = {"weight_ih": _x(4 * HIDDEN, WIDE), "weight_hh": _x(4 * HIDDEN, HIDDEN), "bias": _x(4 * HIDDEN)}
BACK = {f"{name}_back": -array[::-1].copy() for name, array in WEIGHTS.items()}
PEEP = _x(3 * HIDDEN)


def _swapped(array):
    """Turn MIL's gates, input forget output cell, into torch's, input forget cell output."""
    i, f, o, z = np.split(array, 4)
    return torch.tensor(np.concatenate([i, f, z, o])).double()


def _lstm(weights, both=False, backwards=False, sequence=True):
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

    return expected


def _peeping(x, initial_h, initial_c):
    """Run the LSTM of NeuralNetwork.proto: the cell state is seen by the gates, the new one by the output gate."""
    wi, wh, b = (torch.tensor(WEIGHTS[name]).double() for name in ("weight_ih", "weight_hh", "bias"))
    pi, pf, po = torch.tensor(PEEP).double().chunk(3)
    h, c, outputs = initial_h, initial_c, []
    for step in x:
        i, f, o, z = (step @ wi.T + h @ wh.T + b).chunk(4, -1)
        new = torch.sigmoid(f + pf * c) * c + torch.sigmoid(i + pi * c) * torch.tanh(z)
        h, c = torch.sigmoid(o + po * new) * torch.tanh(new), new
        outputs.append(h)
    return torch.stack(outputs), h, c


def _case(expected, inputs=None, **attributes):
    inputs = inputs or {"x": X, "initial_h": H, "initial_c": C}
    # some 5 steps of sums of 7 products, squashed: float16 has 3 digits
    return {
        "inputs": inputs,
        "attributes": {"output_sequence": True, **attributes},
        "expected": expected,
        "strict": 0.03,
    }


TWO_WAYS = {"x": X, "initial_h": H2, "initial_c": C2}
NO_BIAS = {name: WEIGHTS[name] for name in ("weight_ih", "weight_hh")}
NO_BIAS_BACK = {name: BACK[name] for name in ("weight_ih_back", "weight_hh_back")}
RELU = {"recurrent_activation": "sigmoid", "cell_activation": "relu", "activation": "linear"}
SIMPLE = {"weight_ih": _x(HIDDEN, WIDE), "weight_hh": _x(HIDDEN, HIDDEN), "bias": _x(HIDDEN)}
GATED = {"weight_ih": _x(3 * HIDDEN, WIDE), "weight_hh": _x(3 * HIDDEN, HIDDEN), "bias": _x(3 * HIDDEN)}
HOLED = X.copy()
HOLED[2, 0, 1] = np.nan


def _rnn(weights, function, backwards=False, sequence=True):
    def expected(x, initial_h):
        wi, wh = (torch.tensor(weights[name]).double() for name in ("weight_ih", "weight_hh"))
        b = torch.tensor(weights["bias"]).double() if "bias" in weights else 0
        h, outputs = initial_h, []
        for step in x.flip(0) if backwards else x:
            h = function(step @ wi.T + h @ wh.T + b)
            outputs.append(h)
        outputs = torch.stack(outputs[::-1] if backwards else outputs)
        return (outputs if sequence else h[None]), h

    return expected


def _gru(backwards=False, sequence=True):
    def expected(x, initial_h):
        wi, wh, b = (torch.tensor(GATED[name]).double().chunk(3) for name in ("weight_ih", "weight_hh", "bias"))
        h, outputs = initial_h, []
        for step in x.flip(0) if backwards else x:
            r = torch.sigmoid(step @ wi[0].T + h @ wh[0].T + b[0])
            z = torch.sigmoid(step @ wi[2].T + h @ wh[2].T + b[2])
            o = torch.tanh(step @ wi[1].T + r * (h @ wh[1].T) + b[1])
            h = (1 - z) * o + z * h
            outputs.append(h)
        outputs = torch.stack(outputs[::-1] if backwards else outputs)
        return (outputs if sequence else h[None]), h

    return expected


START = {"x": X, "initial_h": H}
CASES = {
    "lstm": [
        _case(_lstm(WEIGHTS), **WEIGHTS),
        _case(_lstm(WEIGHTS, sequence=False), **WEIGHTS, output_sequence=False),
        _case(_lstm(NO_BIAS), **NO_BIAS),
        _case(_lstm(WEIGHTS, backwards=True), **WEIGHTS, direction="reverse"),
        _case(_lstm(WEIGHTS, backwards=True, sequence=False), **WEIGHTS, direction="reverse", output_sequence=False),
        _case(_lstm({**WEIGHTS, **BACK}, True), TWO_WAYS, **WEIGHTS, **BACK, direction="bidirectional"),
        _case(
            _lstm({**NO_BIAS, **NO_BIAS_BACK}, True, sequence=False),
            TWO_WAYS,
            **NO_BIAS,
            **NO_BIAS_BACK,
            direction="bidirectional",
            output_sequence=False,
        ),
        _case(_peeping, **WEIGHTS, peephole=PEEP),
        {**_case(_lstm(WEIGHTS), {"x": HOLED, "initial_h": H, "initial_c": C}, **WEIGHTS), "half": False},
    ],
    "rnn": [
        _case(_rnn(SIMPLE, torch.tanh), START, **SIMPLE),
        _case(_rnn(SIMPLE, torch.relu, True), START, **SIMPLE, activation="relu", direction="reverse"),
        _case(
            _rnn(SIMPLE, torch.sigmoid, sequence=False), START, **SIMPLE, activation="sigmoid", output_sequence=False
        ),
        _case(_rnn(SIMPLE, lambda x: x), START, **SIMPLE, activation="linear"),
    ],
    "gru": [
        _case(_gru(), START, **GATED),
        _case(_gru(True, False), START, **GATED, direction="reverse", output_sequence=False),
    ],
}
CASES["rnn"][-1]["half"] = False  # nothing squashes it: it grows


def test_operator(mil, kind, case):
    mil.check(kind, case)


def test_other_activations_than_sigmoid_and_tanh(mil):
    def expected():
        x, h, c = (torch.tensor(array).double() for array in (X, H, C))
        wi, wh, b = (torch.tensor(WEIGHTS[name]).double() for name in ("weight_ih", "weight_hh", "bias"))
        for step in x:
            i, f, o, z = (step @ wi.T + h @ wh.T + b).chunk(4, -1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.relu(z)
            h = torch.sigmoid(o) * c
        return h

    _, h, _ = mil.run("lstm", {"x": X, "initial_h": H, "initial_c": C}, {**WEIGHTS, **RELU})
    np.testing.assert_allclose(h, expected(), atol=1e-5)


@pytest.mark.parametrize(
    ("attributes", "sentence"),
    [
        ({"clip": np.float32(1.0)}, "lstm 'result' is clipped, and MIL does not say where"),
        ({"activation": "hard_sigmoid"}, "has the activation hard_sigmoid, whose parameters MIL does not give"),
    ],
)
def test_what_mil_leaves_open_is_refused(mil, attributes, sentence):
    with pytest.raises(InputError, match=sentence):
        mil.run("lstm", {"x": X, "initial_h": H, "initial_c": C}, {**WEIGHTS, **attributes})


def test_what_ios_18_adds_to_the_gru_is_refused(mil):
    with pytest.raises(InputError, match="gru 'result' has reset_after or input_bias"):
        mil.run("gru", START, {**GATED, "reset_after": True}, "iOS18")
