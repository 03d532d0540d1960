"""Convolutions and pooling against torch's, which take the same geometry in other words."""

import numpy as np
import torch
import torch.nn.functional as F

from tests.backends.mil.conftest import drawing

_x = drawing()
STRICT = 0.04  # some 40 products and sums of random sign
CONVOLUTIONS = {1: (F.conv1d, F.conv_transpose1d), 2: (F.conv2d, F.conv_transpose2d), 3: (F.conv3d, F.conv_transpose3d)}


def _case(x, weight, strides=1, dilations=1, groups=1, padded=None, bias=None, transposed=False, **constants):
    """Return a case against torch's; `padded` goes around the input, or around the output of a transposed one."""

    def expected(x):
        function = CONVOLUTIONS[x.ndim - 2][transposed]
        x = F.pad(x, padded) if padded and not transposed else x
        options = {"stride": strides, "dilation": dilations, "groups": groups}
        y = function(x, torch.tensor(weight).double(), None, **options)
        y = F.pad(y, padded) if padded and transposed else y
        return y if bias is None else y + torch.tensor(bias).double().reshape(-1, *[1] * (x.ndim - 2))

    def vector(numbers):
        return list(numbers) if isinstance(numbers, tuple) else [numbers]

    given = {"strides": strides, "dilations": dilations}
    options = constants | {name: vector(value) for name, value in given.items() if value != 1}
    options |= ({} if groups == 1 else {"groups": groups}) | ({} if bias is None else {"bias": bias})
    return {"inputs": x, "weight": weight, **options, "expected": expected, "strict": STRICT}


X1, X2, X3 = _x(2, 4, 11), _x(1, 4, 6, 7), _x(1, 2, 4, 5, 4)
W1, W2, W3 = _x(6, 4, 3), _x(6, 4, 3, 2), _x(3, 2, 2, 3, 1)
G1, B6, EVEN = _x(6, 2, 3), _x(6), _x(6, 4, 4)
T1, T2, T3, TG, B3 = _x(4, 3, 4), _x(4, 3, 3, 2), _x(2, 3, 2, 3, 1), _x(4, 3, 3), _x(3)
HOLED = X1.copy()
HOLED[0, 1, 4], HOLED[1, 2, 0] = np.nan, np.inf


def _transposed(x, weight, strides=1, dilations=1, **more):
    return _case(x, weight, strides, dilations, transposed=True, **more)


CASES = {
    "conv": [
        _case(HOLED, W1, bias=B6),
        _case(X1, W1, 2, 2, padded=(2, 1), pad_type="custom", pad=[2, 1]),
        _case(X1, G1, groups=2),
        _case(X1, W1, padded=(1, 1), pad_type="same"),
        # 11 elements, 4 taps, stride 1: 3 are missing, and the odd one is behind or in front
        _case(X1, EVEN, padded=(1, 2), pad_type="same"),
        _case(X1, EVEN, padded=(2, 1), pad_type="same_lower"),
        # stride 3: ceil(11 / 3) = 4 outputs span 3 * 3 + 4 = 13 elements, 2 more than there are
        _case(X1, EVEN, 3, padded=(1, 1), pad_type="same"),
        _case(X2, W2, (2, 1), padded=(0, 1, 2, 3), bias=B6, pad_type="custom", pad=[2, 3, 0, 1]),
        _case(X3, W3),
    ],
    "conv_transpose": [
        _transposed(HOLED, T1, 2),
        _transposed(X1, T1, 2, 3, padded=(-1, -2), bias=B3, pad_type="custom", pad=[1, 2]),
        _transposed(X1, TG, groups=2),
        # same: 11 * 2 of the 24 that there are, one cut off at each end
        _transposed(X1, T1, 2, padded=(-1, -1), pad_type="same"),
        *(
            _transposed(X1, T1, 2, padded=(-1, end), pad_type="custom", pad=[1, 1], output_shape=[2, 3, 23 + end])
            for end in (0, 2)
        ),
        _transposed(X2, T2, (2, 1), bias=B3),
        _transposed(X3, T3),
    ],
}


def test_padding_does_not_make_nan_of_infinity(mil):
    x, weight = np.full((1, 1, 4), np.inf, "float32"), np.ones((1, 1, 3), "float32")
    (y,) = mil.run("conv", x, weight=weight, pad_type="custom", pad=[1, 1])
    assert np.isposinf(y).all()


POOLS = {1: (F.max_pool1d, F.avg_pool1d), 2: (F.max_pool2d, F.avg_pool2d), 3: (F.max_pool3d, F.avg_pool3d)}


LINE, IMAGE, VOLUME = _x(2, 3, 11), _x(1, 2, 6, 7), _x(1, 2, 4, 5, 4)
TORN = LINE.copy()
TORN[0, 1, 4], TORN[1, 2, 0] = np.nan, -np.inf


def _largest(x, kernel, **options):
    return POOLS[x.ndim - 2][0](x, kernel, **{"stride": 1, **options})


def _mean(x, kernel, **options):
    return POOLS[x.ndim - 2][1](x, kernel, **{"stride": 1, **options})


def _pool(x, kernel, expected, pad_type="valid", **constants):
    return {"inputs": x, "kernel_sizes": kernel, "pad_type": pad_type, **constants, "expected": expected}


def _averaged(size, stride, ceil_mode, excluded):
    options = {"stride": stride, "padding": 1, "ceil_mode": ceil_mode, "count_include_pad": not excluded}
    constants = {"strides": [stride], "ceil_mode": ceil_mode, "exclude_padding_from_average": excluded, **PADDED}
    return _pool(LINE, [size], lambda x: _mean(x, size, **options), **constants)


PADDED = {"pad_type": "custom", "pad": [1, 1]}
CASES |= {
    "max_pool": [
        _pool(TORN, [3], lambda x: _largest(x, 3)),
        _pool(LINE, [3], lambda x: _largest(x, 3, stride=2, padding=1), strides=[2], **PADDED),
        _pool(LINE, [3], lambda x: _largest(x, 3, stride=3, ceil_mode=True), strides=[3], ceil_mode=True),
        _pool(IMAGE, [2, 3], lambda x: _largest(F.pad(x, (1, 1, 0, 1), value=-torch.inf), (2, 3)), "same"),
        _pool(VOLUME, [2, 1, 2], lambda x: _largest(x, (2, 1, 2))),
    ],
    "avg_pool": [
        _pool(TORN, [3], lambda x: _mean(x, 3)),
        _averaged(3, 2, False, False),
        _averaged(4, 3, True, True),
        _pool(IMAGE, [2, 3], lambda x: _mean(x, (2, 3), stride=(2, 1)), strides=[2, 1]),
        _pool(VOLUME, [2, 1, 2], lambda x: _mean(x, (2, 1, 2))),
    ],
}
