"""Interpolation against torch's, and against the examples of MIL's own description."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from kokoro_nb.errors import InputError

X = np.random.default_rng(0).normal(size=(1, 2, 4, 6)).astype("float32")
LINE = X[:, :, :, :1]
LONG = np.random.default_rng(1).normal(size=(1, 3, 600, 1)).astype("float32")


def _linear(size, corners=False):
    return lambda x: F.interpolate(x, size=size, mode="bilinear", align_corners=corners)


def _nearest(size):
    return lambda x: F.interpolate(x, size=size, mode="nearest")


def _up(x, height, width, expected, **more):
    return {"inputs": x, "scale_factor_height": height, "scale_factor_width": width, "expected": expected, **more}


def _sized(x, height, width, expected, **more):
    return {"inputs": x, "target_size_height": height, "target_size_width": width, "expected": expected, **more}


def _column(*numbers):
    return np.array(numbers, "float32").reshape(1, 1, -1, 1)


# The grids that MIL's description gives for two elements, 0 and 1, and five or six places between them.
GRIDS = [
    ("UNALIGN_CORNERS", [0.0, 0.1, 0.5, 0.9, 1.0]),
    ("STRICT_ALIGN_CORNERS", [0.0, 0.25, 0.5, 0.75, 1.0]),
    ("DEFAULT", [0.0, 1 / 3, 2 / 3, 1.0, 1.0, 1.0]),
    ("OFFSET_CORNERS", [1 / 12, 3 / 12, 5 / 12, 7 / 12, 9 / 12, 11 / 12]),
]
HALVES = _column(0, 0.5, 1, 1.5, 2, 2).astype("float64")
CORNERS = {"STRICT_ALIGN_CORNERS": True, "ALIGN_CORNERS": True, "UNALIGN_CORNERS": False}
NEAREST = {"shape": [12], "resized_dims": np.uint32(1), "interpolation_mode": "NEAREST_NEIGHBOR"}
CASES = {
    "upsample_nearest_neighbor": [
        _up(X, 2, 3, _nearest((8, 18))),
        _up(X, 1.5, 0.5, _nearest((6, 3)), half=False),  # MIL has no float16 factors
    ],
    "upsample_bilinear": [
        _up(X, 2, 3, _linear((8, 18), True), align_corners=True),
        _up(X, 2, 3, _linear((8, 18)), align_corners=False),
        _up(LINE, 300, 1, _linear((1200, 1)), align_corners=False),
        # down by 300, as Kokoro's source does with its phase
        _up(LONG, 1 / 300, 1.0, _linear((2, 1)), align_corners=False, half=False),
        _up(X, 2, 1, _linear((8, 6)), align_corners=False, half_pixel_centers=True),
        _up(_column(0, 1, 2), 2, 1, HALVES, align_corners=False, half_pixel_centers=False),
    ],
    "resize_nearest_neighbor": [_sized(X, 7, 5, _nearest((7, 5)))],
    "resize_bilinear": [
        *(_sized(X, 7, 5, _linear((7, 5), corners), sampling_mode=mode) for mode, corners in CORNERS.items()),
        *(
            _sized(_column(0, 1), len(grid), 1, np.array(grid).reshape(1, 1, -1, 1), sampling_mode=mode, half=False)
            for mode, grid in GRIDS
        ),
        _sized(_column(0, 1, 5), 1, 1, np.zeros((1, 1, 1, 1)), sampling_mode="STRICT_ALIGN_CORNERS"),
        _sized(_column(0, 1, 5), 1, 1, np.ones((1, 1, 1, 1)), sampling_mode="ALIGN_CORNERS"),
    ],
    "resize": [
        {
            **{"inputs": X, "shape": [9, 7, 0], "resized_dims": np.uint32(2), "sampling_mode": "UNALIGN_CORNERS"},
            "expected": _linear((7, 6)),
        },
        {"inputs": X, **NEAREST, "expected": _nearest((4, 12))},
    ],
}


@pytest.mark.parametrize(
    ("kind", "constants", "sentence"),
    [
        ("upsample_bilinear", {"align_corners": True, "half_pixel_centers": True}, "which exclude each other"),
        ("resize", {**NEAREST, "sampling_mode": "ALIGN_CORNERS"}, "MIL does not say how places are rounded"),
    ],
)
def test_what_mil_leaves_open_is_refused(mil, kind, constants, sentence):
    with pytest.raises(InputError, match=sentence):
        mil.run(kind, X, **constants)


def test_nan_goes_through(mil):
    x = _column(0, 0, np.nan, 0)
    (y,) = mil.run("upsample_bilinear", x, scale_factor_height=3, scale_factor_width=1, align_corners=False)
    wanted = F.interpolate(torch.tensor(x), scale_factor=(3, 1), mode="bilinear").numpy()
    np.testing.assert_array_equal(np.isnan(y), np.isnan(wanted))
    assert np.isnan(y).any()
