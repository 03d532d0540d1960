"""Normalisations against torch's in float64."""

import numpy as np
import torch
import torch.nn.functional as F

GENERATOR = np.random.default_rng(0)
STRICT = 0.03  # sums of some 20 terms, and their squares


def _x(*shape):
    return GENERATOR.normal(size=shape).astype("float32")


X, IMAGE = _x(2, 3, 20), _x(2, 3, 4, 5)
GAMMA, BETA = _x(3), _x(3)
HOLED, FAR = X.copy(), X + np.float32(30.0)
HOLED[0, 1, 4], HOLED[1, 2, 0] = np.nan, np.inf
EPSILON = np.float32(1e-5)


def _double(array):
    return None if array is None else torch.tensor(array).double()


def _instance(gamma=None, beta=None):
    return lambda x: F.instance_norm(x, weight=_double(gamma), bias=_double(beta), eps=float(EPSILON))


def _layer(axes, gamma=None, beta=None):
    def expected(x):
        centred = x - x.mean(axes, keepdim=True)
        normed = centred / torch.sqrt((centred**2).mean(axes, keepdim=True) + float(EPSILON))
        normed = normed if gamma is None else normed * _double(gamma)
        return normed if beta is None else normed + _double(beta)

    return expected


def _batch(x):
    return F.batch_norm(x, _double(GAMMA), _double(BETA**2), _double(BETA), _double(GAMMA), eps=float(np.float32(1e-3)))


CASES = {
    "instance_norm": [
        {"inputs": {"x": X}, "expected": _instance(), "strict": STRICT},
        {
            "inputs": {"x": IMAGE},
            "attributes": {"gamma": GAMMA, "beta": BETA},
            "expected": _instance(GAMMA, BETA),
            "strict": STRICT,
        },
        {"inputs": {"x": HOLED}, "expected": _instance(), "half": False},
        # a mean 30 times the deviation: one-pass E[x^2] - E[x]^2 would lose 3 digits more
        {"inputs": {"x": FAR}, "expected": _instance(), "rtol": 2e-5, "half": False},
        {"inputs": {"x": np.full((1, 2, 6), 3.0, "float32")}, "expected": _instance()},
    ],
    "layer_norm": [
        {
            "inputs": {"x": X},
            "attributes": {"axes": np.array([-1], "int32")},
            "expected": _layer([-1]),
            "strict": STRICT,
        },
        {"inputs": {"x": HOLED}, "attributes": {"axes": np.array([-1], "int32")}, "half": False},
        {
            "inputs": {"x": X},
            "attributes": {"axes": np.array([2], "int32"), "gamma": X[0, 0], "beta": X[0, 1]},
            "expected": _layer([2], X[0, 0], X[0, 1]),
            "strict": STRICT,
        },
        {
            "inputs": {"x": X},
            "attributes": {"axes": np.array([1, 2], "int32"), "gamma": X[0], "beta": X[1]},
            "expected": _layer([1, 2], X[0], X[1]),
            "strict": STRICT,
        },
        {
            "inputs": {"x": X},
            "attributes": {"axes": np.array([1], "int32"), "gamma": GAMMA},
            "expected": lambda x: _layer([1], GAMMA[:, None])(x),
            "strict": STRICT,
        },
    ],
    "batch_norm": [
        {
            "inputs": {"x": x},
            "attributes": {
                "mean": GAMMA,
                "variance": BETA**2,
                "gamma": BETA,
                "beta": GAMMA,
                "epsilon": np.float32(1e-3),
            },
            "expected": _batch,
            "half": x is not HOLED,
        }
        for x in (X, IMAGE, HOLED)
    ]
    + [
        {
            "inputs": {"x": X},
            "attributes": {"mean": GAMMA, "variance": BETA**2},
            "expected": lambda x: F.batch_norm(x, _double(GAMMA), _double(BETA**2), eps=float(EPSILON)),
        }
    ],
    "l2_norm": [{"inputs": {"x": IMAGE}, "strict": STRICT}, {"inputs": {"x": IMAGE[0]}, "strict": STRICT}],
    "local_response_norm": [
        {
            "inputs": {"x": x},
            "attributes": {"size": size, "alpha": np.float32(0.5), "beta": np.float32(0.75), "k": np.float32(2.0)},
            "expected": lambda x, size=size: F.local_response_norm(x, size, 0.5, 0.75, 2.0),
        }
        for x in (X, IMAGE)
        for size in (2, 3)
    ],
}


def test_operator(mil, kind, case):
    mil.check(kind, case)


def test_a_strict_norm_of_loud_channels_overflows(mil):
    # The square of a deviation of 300 is 90 000: beyond 65 504, so the variance is infinite and the channel 0.
    from kokoro_nb.backends.mil.rounding import STRICT as MODE

    x = (300 * np.sign(X)).astype("float16")
    (strict,) = mil.run("instance_norm", {"x": x}, {}, arithmetic=MODE)
    (wide,) = mil.run("instance_norm", {"x": x}, {})
    assert not strict.any()
    assert np.abs(wide).max() > 0.5
