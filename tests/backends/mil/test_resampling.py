"""Interpolation against torch's, and against the examples of MIL's own description."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from kokoro_nb.errors import InputError

X = np.random.default_rng(0).normal(size=(1, 2, 4, 6)).astype("float32")
LINE = X[:, :, :, :1]
LONG = np.random.default_rng(1).normal(size=(1, 3, 600, 1)).astype("float32")


def _factors(height, width):
    return {"scale_factor_height": height, "scale_factor_width": width}


def _linear(size, corners):
    return lambda x: F.interpolate(x, size=size, mode="bilinear", align_corners=corners)


def _nearest(size):
    return lambda x: F.interpolate(x, size=size, mode="nearest")


def _up(x, height, width, expected, **more):
    return {"inputs": {"x": x}, "attributes": {**_factors(height, width), **more}, "expected": expected}


CASES = {
    "upsample_nearest_neighbor": [
        _up(X, 2, 3, _nearest((8, 18))),
        _up(LINE, 300, 1, _nearest((1200, 1))),
        {**_up(X, np.float32(1.5), np.float32(0.5), _nearest((6, 3))), "half": False},  # MIL has no float16 factors
    ],
    "upsample_bilinear": [
        _up(X, 2, 3, _linear((8, 18), True), align_corners=True),
        _up(X, 2, 3, _linear((8, 18), False), align_corners=False),
        _up(LINE, 300, 1, _linear((1200, 1), False), align_corners=False),
        # down by 300, as Kokoro's source does with its phase
        {**_up(LONG, np.float32(1 / 300), np.float32(1.0), _linear((2, 1), False), align_corners=False), "half": False},
        _up(
            X,
            2,
            1,
            lambda x: F.interpolate(x, size=(8, 6), mode="bilinear"),
            align_corners=False,
            half_pixel_centers=True,
        ),
    ],
    "resize_nearest_neighbor": [
        {
            "inputs": {"x": X},
            "attributes": {"target_size_height": 7, "target_size_width": 5},
            "expected": _nearest((7, 5)),
        }
    ],
    "resize_bilinear": [
        {
            "inputs": {"x": X},
            "attributes": {"target_size_height": 7, "target_size_width": 5, "sampling_mode": mode},
            "expected": _linear((7, 5), corners),
        }
        for mode, corners in (("STRICT_ALIGN_CORNERS", True), ("ALIGN_CORNERS", True), ("UNALIGN_CORNERS", False))
    ]
    + [
        # the grids that MIL's description gives for two elements, 0 and 1, and five or six places between them
        {
            "inputs": {"x": np.array([[[[0.0], [1.0]]]], "float32")},
            "attributes": {"target_size_height": len(grid), "target_size_width": 1, "sampling_mode": mode},
            "expected": np.array(grid).reshape(1, 1, -1, 1),
            "half": False,
        }
        for mode, grid in [
            ("UNALIGN_CORNERS", [0.0, 0.1, 0.5, 0.9, 1.0]),
            ("STRICT_ALIGN_CORNERS", [0.0, 0.25, 0.5, 0.75, 1.0]),
            ("DEFAULT", [0.0, 0.4, 0.8, 1.0, 1.0]),
            ("OFFSET_CORNERS", [0.1, 0.3, 0.5, 0.7, 0.9]),
            ("DEFAULT", [0.0, 1 / 3, 2 / 3, 1.0, 1.0, 1.0]),
            ("OFFSET_CORNERS", [1 / 12, 3 / 12, 5 / 12, 7 / 12, 9 / 12, 11 / 12]),
        ]
    ]
    + [
        {
            "inputs": {"x": np.array([[[[0.0], [1.0], [5.0]]]], "float32")},
            "attributes": {"target_size_height": 1, "target_size_width": 1, "sampling_mode": mode},
            "expected": np.array([[[[value]]]]),
        }
        for mode, value in (("STRICT_ALIGN_CORNERS", 0.0), ("ALIGN_CORNERS", 1.0))
    ],
    "resize": [
        {
            "inputs": {"x": X},
            "attributes": {
                "shape": np.array([9, 7, 0], "int32"),
                "resized_dims": np.uint32(2),
                "sampling_mode": "UNALIGN_CORNERS",
            },
            "expected": _linear((7, 6), False),
        },
        {
            "inputs": {"x": X},
            "attributes": {
                "shape": np.array([12], "int32"),
                "resized_dims": np.uint32(1),
                "interpolation_mode": "NEAREST_NEIGHBOR",
            },
            "expected": _nearest((4, 12)),
        },
    ],
}


def test_operator(mil, kind, case):
    mil.check(kind, case)


def test_a_place_from_the_start_without_half_a_pixel(mil):
    x = np.array([[[[0.0], [1.0], [2.0]]]], "float32")
    attributes = {**_factors(2, 1), "align_corners": False, "half_pixel_centers": False}
    (y,) = mil.run("upsample_bilinear", {"x": x}, attributes)
    assert y.ravel().tolist() == [0.0, 0.5, 1.0, 1.5, 2.0, 2.0]


@pytest.mark.parametrize(
    ("kind", "attributes", "sentence"),
    [
        ("upsample_bilinear", {"align_corners": True, "half_pixel_centers": True}, "which exclude each other"),
        (
            "resize",
            {
                "shape": np.array([12], "int32"),
                "resized_dims": np.uint32(1),
                "interpolation_mode": "NEAREST_NEIGHBOR",
                "sampling_mode": "ALIGN_CORNERS",
            },
            "MIL does not say how places are rounded",
        ),
    ],
)
def test_what_mil_leaves_open_is_refused(mil, kind, attributes, sentence):
    with pytest.raises(InputError, match=sentence):
        mil.run(kind, {"x": X}, attributes)


def test_nan_and_infinity_go_through(mil):
    x = np.zeros((1, 1, 4, 1), "float32")
    x[0, 0, 2] = np.nan
    (y,) = mil.run("upsample_bilinear", {"x": x}, {**_factors(3, 1), "align_corners": False})
    wanted = F.interpolate(torch.tensor(x), scale_factor=(3, 1), mode="bilinear").numpy()
    np.testing.assert_array_equal(np.isnan(y), np.isnan(wanted))
    assert np.isnan(y).any()
