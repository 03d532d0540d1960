"""Normalisations against torch's in float64."""

import numpy as np
import torch
import torch.nn.functional as F

from kokoro_nb.backends.mil.rounding import STRICT
from tests.backends.mil.conftest import drawing

_x = drawing()
LOOSE = {"strict": 0.03}  # sums of some 20 terms, and their squares


X, IMAGE = _x(2, 3, 20), _x(2, 3, 4, 5)
GAMMA, BETA = _x(3), _x(3)
HOLED, FAR = X.copy(), X + np.float32(30.0)
HOLED[0, 1, 4], HOLED[1, 2, 0] = np.nan, np.inf
EPSILON = float(np.float32(1e-5))


def _double(array):
    return None if array is None else torch.tensor(array).double()


def _instance(x, **more):
    def expected(x):
        return F.instance_norm(x, weight=_double(more.get("gamma")), bias=_double(more.get("beta")), eps=EPSILON)

    return {"inputs": x, "expected": expected, **more}


def _layer(axes, gamma=None, beta=None, shape=None):
    def expected(x):
        centred = x - x.mean(axes, keepdim=True)
        normed = centred / torch.sqrt((centred**2).mean(axes, keepdim=True) + EPSILON)
        normed = normed if gamma is None else normed * _double(gamma).reshape(shape or gamma.shape)
        return normed if beta is None else normed + _double(beta)

    given = {name: array for name, array in (("gamma", gamma), ("beta", beta)) if array is not None}
    return {"inputs": X, "axes": axes, **given, "expected": expected, **LOOSE}


def _batch(x, epsilon=EPSILON, gamma=None, beta=None, **more):
    def expected(x):
        return F.batch_norm(x, _double(GAMMA), _double(BETA**2), _double(gamma), _double(beta), eps=epsilon)

    given = {} if gamma is None else {"gamma": gamma, "beta": beta, "epsilon": epsilon}
    return {"inputs": x, "mean": GAMMA, "variance": BETA**2, **given, "expected": expected, **more}


CASES = {
    "instance_norm": [
        _instance(X, **LOOSE),
        _instance(IMAGE, gamma=GAMMA, beta=BETA, **LOOSE),
        _instance(HOLED, half=False),
        # a mean 30 times the deviation: one-pass E[x^2] - E[x]^2 would lose 3 digits more
        _instance(FAR, rtol=2e-5, half=False),
        _instance(np.full((1, 2, 6), 3.0, "float32")),
    ],
    "layer_norm": [
        {"inputs": HOLED, "axes": [-1], "half": False},
        _layer([2], X[0, 0], X[0, 1]),
        _layer([1, 2], X[0], X[1]),
        _layer([1], GAMMA, shape=(3, 1)),
    ],
    "batch_norm": [
        *(_batch(x, float(np.float32(1e-3)), BETA, GAMMA, half=x is not HOLED) for x in (X, IMAGE, HOLED)),
        _batch(X),
    ],
}


def test_a_strict_norm_of_loud_channels_overflows(mil):
    # The square of a deviation of 300 is 90 000: beyond 65 504, so the variance is infinite and the channel 0.
    x = (300 * np.sign(X)).astype("float16")
    assert not mil.run("instance_norm", x, arithmetic=STRICT)[0].any()
    assert np.abs(mil.run("instance_norm", x)[0]).max() > 0.5
