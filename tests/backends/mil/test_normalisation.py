"""Normalisations against torch's in float64; strict float16 sums against NumPy's, one number at a time."""

from itertools import product

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from kokoro_nb.backends.mil import accumulation
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
    "l2_norm": [{"inputs": IMAGE, **LOOSE}, {"inputs": IMAGE[0], **LOOSE}],
    "local_response_norm": [
        {
            **{"inputs": x, "size": size, "alpha": 0.5, "beta": 0.75, "k": 2.0},
            "expected": lambda x, size=size: F.local_response_norm(x, size, 0.5, 0.75, 2.0),
        }
        for x, size in ((X, 2), (IMAGE, 3))
    ],
}


def test_a_strict_norm_of_loud_channels_overflows(mil):
    # The square of a deviation of 300 is 90 000: beyond 65 504, so the variance is infinite and the channel 0.
    x = (300 * np.sign(X)).astype("float16")
    assert not mil.run("instance_norm", x, arithmetic=STRICT)[0].any()
    assert np.abs(mil.run("instance_norm", x)[0]).max() > 0.5


GENERATOR = np.random.default_rng(0)


def _half(*shape):
    return GENERATOR.normal(size=shape).astype(np.float16)


def _bits(tensor):
    return tensor.numpy().view(np.uint16)


def test_total_adds_the_last_axis_fastest():
    x = _half(3, 4, 5)
    expected = np.zeros(4, np.float16)
    for i, k in product(range(3), range(5)):
        expected = expected + x[i, :, k]
    result = accumulation.total(torch.tensor(x), [-1, 0])
    np.testing.assert_array_equal(_bits(result), expected.view(np.uint16))
    assert accumulation.total(torch.tensor(x), [2, 0], keep=True).shape == (1, 4, 1)
    turned = np.zeros(4, np.float16)  # another order gives another sum, so that the order is tested at all
    for k, i in product(range(5), range(3)):
        turned = turned + x[i, :, k]
    assert (turned != expected).any()


@pytest.mark.parametrize(("left", "right"), [((2, 1, 3, 7), (4, 7, 2)), ((7,), (7, 2)), ((3, 7), (7,))])
def test_matmul_adds_along_the_common_axis(left, right):
    x, y = _half(*left), _half(*right)
    shape = np.matmul(x, y).shape
    rows = x if x.ndim > 1 else x[None]
    columns = y if y.ndim > 1 else y[:, None]
    expected = np.zeros(
        (*np.broadcast_shapes(rows.shape[:-2], columns.shape[:-2]), rows.shape[-2], columns.shape[-1]), np.float16
    )
    for k in range(7):
        expected = expected + rows[..., :, k : k + 1] * columns[..., k : k + 1, :]
    result = accumulation.matmul(torch.tensor(x), torch.tensor(y))
    np.testing.assert_array_equal(_bits(result), expected.reshape(shape).view(np.uint16))


def _convolved(x, weight, strides, dilations, groups):
    """Convolve one number at a time, by input channel and within it by tap."""
    kernel, per_group = weight.shape[2:], weight.shape[1]
    sizes = [(n - (k - 1) * d - 1) // s + 1 for n, k, s, d in zip(x.shape[2:], kernel, strides, dilations, strict=True)]
    result = np.zeros((x.shape[0], weight.shape[0], *sizes), np.float16)
    for place in np.ndindex(*result.shape):
        batch, out, *at = place
        first = out // (weight.shape[0] // groups) * per_group
        for channel, *tap in product(range(per_group), *map(range, kernel)):
            source = [a * s + t * d for a, t, s, d in zip(at, tap, strides, dilations, strict=True)]
            result[place] += x[(batch, first + channel, *source)] * weight[(out, channel, *tap)]
    return result


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("geometry", [((9,), (3,), (2,), (2,)), ((5, 6), (2, 3), (2, 1), (1, 2))])
def test_convolutions(geometry, groups):
    size, kernel, strides, dilations = geometry
    x, weight = _half(2, 4, *size), _half(6, 4 // groups, *kernel)
    result = accumulation.convolution(torch.tensor(x), torch.tensor(weight), strides, dilations, groups)
    np.testing.assert_array_equal(_bits(result), _convolved(x, weight, strides, dilations, groups).view(np.uint16))
