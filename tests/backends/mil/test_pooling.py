"""Pooling against torch's."""

import numpy as np
import torch
import torch.nn.functional as F

from tests.backends.mil.conftest import drawing

_x = drawing()
POOLS = {1: (F.max_pool1d, F.avg_pool1d), 2: (F.max_pool2d, F.avg_pool2d), 3: (F.max_pool3d, F.avg_pool3d)}


X1, X2, X3 = _x(2, 3, 11), _x(1, 2, 6, 7), _x(1, 2, 4, 5, 4)
HOLED = X1.copy()
HOLED[0, 1, 4], HOLED[1, 2, 0] = np.nan, -np.inf


def _largest(x, kernel, **options):
    return POOLS[x.ndim - 2][0](x, kernel, **{"stride": 1, **options})


def _mean(x, kernel, **options):
    return POOLS[x.ndim - 2][1](x, kernel, **{"stride": 1, **options})


def _case(x, kernel, expected, pad_type="valid", **constants):
    return {"inputs": x, "kernel_sizes": kernel, "pad_type": pad_type, **constants, "expected": expected}


PADDED = {"pad_type": "custom", "pad": [1, 1]}
CASES = {
    "max_pool": [
        _case(HOLED, [3], lambda x: _largest(x, 3)),
        _case(X1, [3], lambda x: _largest(x, 3, stride=2, padding=1), strides=[2], **PADDED),
        _case(X1, [3], lambda x: _largest(x, 3, stride=3, ceil_mode=True), strides=[3], ceil_mode=True),
        _case(X2, [2, 3], lambda x: _largest(F.pad(x, (1, 1, 0, 1), value=-torch.inf), (2, 3)), "same"),
        _case(X3, [2, 1, 2], lambda x: _largest(x, (2, 1, 2))),
    ],
    "avg_pool": [
        _case(HOLED, [3], lambda x: _mean(x, 3)),
        *(
            _case(
                X1,
                [size],
                lambda x, size=size, stride=stride, excluded=excluded: _mean(
                    x, size, stride=stride, padding=1, ceil_mode=size == 4, count_include_pad=not excluded
                ),
                **{"strides": [stride], "ceil_mode": size == 4, "exclude_padding_from_average": excluded, **PADDED},
            )
            for size, stride, excluded in ((3, 2, False), (4, 3, True))
        ),
        _case(X2, [2, 3], lambda x: _mean(x, (2, 3), stride=(2, 1)), strides=[2, 1]),
        _case(X3, [2, 1, 2], lambda x: _mean(x, (2, 1, 2))),
    ],
    "l2_pool": [
        _case(X1, [3], lambda x: torch.sqrt(3 * _mean(x * x, 3))),
        _case(X2, [2, 3], lambda x: torch.sqrt(6 * _mean(x * x, (2, 3), stride=2)), strides=[2, 2]),
    ],
}
