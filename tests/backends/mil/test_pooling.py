"""Pooling against torch's."""

import numpy as np
import torch
import torch.nn.functional as F

GENERATOR = np.random.default_rng(0)


def _x(*shape):
    return GENERATOR.normal(size=shape).astype("float32")


X1, X2, X3 = _x(2, 3, 11), _x(1, 2, 6, 7), _x(1, 2, 4, 5, 4)
HOLED = X1.copy()
HOLED[0, 1, 4], HOLED[1, 2, 0] = np.nan, -np.inf


def _case(x, kernel, expected, pad_type="valid", **attributes):
    arrays = {n: np.array(v, "int32") if isinstance(v, list) else v for n, v in attributes.items()}
    constants = {"kernel_sizes": np.array(kernel, "int32"), "pad_type": pad_type, **arrays}
    return {"inputs": {"x": x}, "attributes": constants, "expected": expected}


def _mean(x, kernel, stride=1, padding=0, ceil=False, counted=True):
    return {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}[x.ndim - 2](x, kernel, stride, padding, ceil, counted)


def _largest(x, kernel, stride=1, padding=0, ceil=False):
    return {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}[x.ndim - 2](x, kernel, stride, padding, 1, ceil)


CASES = {
    "max_pool": [
        _case(X1, [3], lambda x: _largest(x, 3)),
        _case(HOLED, [3], lambda x: _largest(x, 3)),
        _case(X1, [3], lambda x: _largest(x, 3, 2, 1), "custom", strides=[2], pad=[1, 1]),
        _case(X1, [3], lambda x: _largest(x, 3, 3, 0, True), strides=[3], ceil_mode=True),
        _case(X2, [2, 3], lambda x: _largest(F.pad(x, (1, 1, 0, 1), value=-torch.inf), (2, 3)), "same"),
        _case(X3, [2, 1, 2], lambda x: _largest(x, (2, 1, 2))),
    ],
    "avg_pool": [
        _case(X1, [3], lambda x: _mean(x, 3)),
        _case(HOLED, [3], lambda x: _mean(x, 3)),
        _case(X1, [3], lambda x: _mean(x, 3, 2, 1), "custom", strides=[2], pad=[1, 1]),
        _case(
            X1,
            [3],
            lambda x: _mean(x, 3, 2, 1, False, False),
            "custom",
            strides=[2],
            pad=[1, 1],
            exclude_padding_from_average=True,
        ),
        _case(X1, [4], lambda x: _mean(x, 4, 3, 1, True), "custom", strides=[3], pad=[1, 1], ceil_mode=True),
        _case(
            X1,
            [4],
            lambda x: _mean(x, 4, 3, 1, True, False),
            "custom",
            strides=[3],
            pad=[1, 1],
            ceil_mode=True,
            exclude_padding_from_average=True,
        ),
        _case(X2, [2, 3], lambda x: _mean(x, (2, 3), (2, 1)), strides=[2, 1]),
        _case(X3, [2, 1, 2], lambda x: _mean(x, (2, 1, 2))),
    ],
    "l2_pool": [
        _case(X1, [3], lambda x: torch.sqrt(3 * _mean(x * x, 3))),
        _case(X2, [2, 3], lambda x: torch.sqrt(6 * _mean(x * x, (2, 3), 2)), strides=[2, 2]),
    ],
}


def test_operator(mil, kind, case):
    mil.check(kind, case)
