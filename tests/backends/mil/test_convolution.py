"""Convolutions against torch's, which take the same geometry in other words."""

import numpy as np
import torch
import torch.nn.functional as F

GENERATOR = np.random.default_rng(0)
STRICT = 0.04  # some 40 products and sums of random sign


def _x(*shape):
    return GENERATOR.normal(size=shape).astype("float32")


def _conv(weight, bias=None, pads=None, strides=1, dilations=1, groups=1):
    def expected(x):
        function = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[x.ndim - 2]
        b = None if bias is None else torch.tensor(bias).double()
        x = F.pad(x, pads) if pads else x
        return function(x, torch.tensor(weight).double(), b, strides, 0, dilations, groups)

    return expected


def _case(x, weight, expected, **attributes):
    arrays = {n: np.array(v, "int32") if isinstance(v, list) else v for n, v in attributes.items()}
    return {"inputs": {"x": x}, "attributes": {"weight": weight, **arrays}, "expected": expected, "strict": STRICT}


X1, X2, X3 = _x(2, 4, 11), _x(1, 4, 6, 7), _x(1, 2, 4, 5, 4)
W1, W2, W3 = _x(6, 4, 3), _x(6, 4, 3, 2), _x(3, 2, 2, 3, 1)
G1, B6 = _x(6, 2, 3), _x(6)
EVEN = _x(6, 4, 4)
HOLED = X1.copy()
HOLED[0, 1, 4], HOLED[1, 2, 0] = np.nan, np.inf


def _transposed(weight, bias=None, strides=1, dilations=1, groups=1, cut=None):
    def expected(x):
        function = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}[x.ndim - 2]
        full = function(x, torch.tensor(weight).double(), None, strides, 0, 0, groups, dilations)
        full = F.pad(full, cut) if cut else full
        return full if bias is None else full + torch.tensor(bias).double().reshape(-1, *[1] * (x.ndim - 2))

    return expected


T1, T2, T3, TG, B3 = _x(4, 3, 4), _x(4, 3, 3, 2), _x(2, 3, 2, 3, 1), _x(4, 3, 3), _x(3)

CASES = {
    "conv": [
        _case(X1, W1, _conv(W1)),
        _case(X1, W1, _conv(W1, B6), bias=B6),
        _case(HOLED, W1, _conv(W1, B6), bias=B6),
        _case(X1, W1, _conv(W1, None, (2, 1), 2, 2), pad_type="custom", pad=[2, 1], strides=[2], dilations=[2]),
        _case(X1, G1, _conv(G1, groups=2), groups=2),
        _case(X1, W1, _conv(W1, None, (1, 1)), pad_type="same"),
        # 11 elements, 4 taps, stride 1: 3 are missing, and the odd one is behind or in front
        _case(X1, EVEN, _conv(EVEN, None, (1, 2)), pad_type="same"),
        _case(X1, EVEN, _conv(EVEN, None, (2, 1)), pad_type="same_lower"),
        # stride 3: ceil(11 / 3) = 4 outputs span 3 * 3 + 4 = 13 elements, 2 more than there are
        _case(X1, EVEN, _conv(EVEN, None, (1, 1), 3), pad_type="same", strides=[3]),
        _case(
            X2, W2, _conv(W2, B6, (0, 1, 2, 3), (2, 1)), bias=B6, pad_type="custom", pad=[2, 3, 0, 1], strides=[2, 1]
        ),
        _case(X3, W3, _conv(W3)),
    ],
    "conv_transpose": [
        _case(X1, T1, _transposed(T1)),
        _case(X1, T1, _transposed(T1, B3, 2), bias=B3, strides=[2]),
        _case(HOLED, T1, _transposed(T1, None, 2), strides=[2]),
        _case(
            X1,
            T1,
            _transposed(T1, B3, 2, 3, 1, (-1, -2)),
            bias=B3,
            strides=[2],
            dilations=[3],
            pad_type="custom",
            pad=[1, 2],
        ),
        _case(X1, TG, _transposed(TG, groups=2), groups=2),
        # same: 11 * 2 of the 24 that there are, one cut off at each end
        _case(X1, T1, _transposed(T1, None, 2, 1, 1, (-1, -1)), strides=[2], pad_type="same"),
        _case(
            X1,
            T1,
            _transposed(T1, None, 2, 1, 1, (-1, 0)),
            strides=[2],
            pad_type="custom",
            pad=[1, 1],
            output_shape=[2, 3, 23],
        ),
        _case(
            X1,
            T1,
            _transposed(T1, None, 2, 1, 1, (-1, 2)),
            strides=[2],
            pad_type="custom",
            pad=[1, 1],
            output_shape=[2, 3, 25],
        ),
        _case(X2, T2, _transposed(T2, B3, (2, 1)), bias=B3, strides=[2, 1]),
        _case(X3, T3, _transposed(T3)),
    ],
}


def test_operator(mil, kind, case):
    mil.check(kind, case)


def test_padding_does_not_make_nan_of_infinity(mil):
    x = np.full((1, 1, 4), np.inf, "float32")
    weight = np.ones((1, 1, 3), "float32")
    (y,) = mil.run("conv", {"x": x}, {"weight": weight, "pad_type": "custom", "pad": np.array([1, 1], "int32")})
    assert np.isposinf(y).all()


def test_a_weight_that_is_no_constant(mil):
    (y,) = mil.run("conv", {"x": X1, "weight": W1}, {})
    np.testing.assert_allclose(y, F.conv1d(torch.tensor(X1), torch.tensor(W1)), atol=1e-5)
