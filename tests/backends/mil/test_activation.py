"""Activation functions."""

import numpy as np
import torch
import torch.nn.functional as F

EDGES = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.1, -3.0, 4.0, 7.0, -9.0], "float32")
FINITE = np.linspace(-6, 6, 24, dtype="float32").reshape(1, 2, 3, 4)
BOTH = {"alpha": 0.3, "beta": 1.5}
CHANNELS = np.array([0.25, -0.5], "float32")


def _cases(**more):
    return [{"inputs": x, **more} for x in (EDGES, FINITE)]


def _spread(alpha):
    return torch.tensor(alpha).double().reshape(1, 2, 1, 1)


CASES = {
    **dict.fromkeys(("relu", "relu6", "sigmoid", "softsign", "softplus"), _cases()),
    **dict.fromkeys(("leaky_relu", "thresholded_relu", "elu"), _cases(alpha=0.3)),
    **dict.fromkeys(("linear_activation", "scaled_tanh", "sigmoid_hard"), _cases(**BOTH)),
    # coremltools infers no value of it; torch gives NaN for -inf, as -inf times 0 is
    "silu": _cases(expected=lambda x: x * (1 / (1 + torch.exp(-x)))),
    "clamped_relu": [
        *_cases(**BOTH),
        # by its description; coremltools' own value counts a negative beta twice where x is positive
        {
            **{"inputs": FINITE, "alpha": 0.5, "beta": -1.0},
            "expected": lambda x: torch.where(x >= 0, torch.clamp(x, max=-1.0), torch.clamp(0.5 * x, max=-1.0)),
        },
    ],
    "prelu": [{"inputs": FINITE, "alpha": CHANNELS}],
    "softplus_parametric": [
        {"inputs": FINITE, "alpha": CHANNELS, "beta": CHANNELS},
        # far out: coremltools' own value overflows
        {
            **{"inputs": 400 * FINITE, "alpha": CHANNELS, "beta": CHANNELS},
            "expected": lambda x: _spread(CHANNELS) * F.softplus(_spread(CHANNELS) * x),
        },
    ],
    "gelu": [
        {"inputs": x, "mode": mode}
        for x in (EDGES[3:], FINITE)
        for mode in ("EXACT", "TANH_APPROXIMATION", "SIGMOID_APPROXIMATION")
    ],
    "softmax": [{"inputs": FINITE, "axis": axis} for axis in (-1, 1)]
    + [
        {"inputs": np.array([[0, -np.inf, 1], [-np.inf] * 3, [0, np.inf, 1], [0, np.nan, 1]], "float32")},
        {"inputs": np.array([500.0, 501.0, -800.0], "float32")},  # exp alone would overflow
    ],
}


def test_softplus_does_not_lose_tiny_values(mil):
    # log(1 + exp(-30)) is 9.4e-14; 1 + 9.4e-14 is 1 in float32, whose logarithm is 0
    np.testing.assert_allclose(mil.run("softplus", np.array([-30.0], "float32"))[0], np.exp(-30.0), rtol=1e-6)
