"""Operators that arrange elements anew, and interpolation against torch's."""

import numpy as np
import torch
import torch.nn.functional as F

X = np.arange(24, dtype="float32").reshape(2, 3, 4)
WHOLE, TRUTHS = X.astype("int32"), X > 9
ONES = X.reshape(1, 2, 1, 12)
HOLED = X.copy()
HOLED[0, 0, 0], HOLED[1, 2, 3] = np.nan, -np.inf


def _ints(*numbers):
    return np.array(numbers, "int32")


def _case(inputs, expected=None, **more):
    return {"inputs": inputs, **more} | ({} if expected is None else {"expected": expected})


def _padded(pad, mode):
    return lambda x: torch.nn.functional.pad(x, pad, mode=mode)


CASES = {
    "reshape": [
        *(_case(x, shape=[-1, 6]) for x in (X, WHOLE, TRUTHS)),
        _case(X, shape=[0, -1, 0]),
        _case(X, opset="iOS16", shape=[0, -1, 2]),
        # iOS 17 counts axes for 0 from the right: the last is 4, then 3, and 1 where there is none
        _case(X, shape=[0, 2, 0, 0], expected=X.reshape(1, 2, 3, 4)),
    ],
    "expand_dims": [_case(X, axes=axes) for axes in ([0], [1, -1], [-2, 0])],
    "squeeze": [_case(ONES), _case(ONES, axes=[-2, 0]), _case(ONES, X.reshape(2, 1, 12), axes=[0, 1])],
    "transpose": [_case(x, perm=perm) for x in (X, TRUTHS) for perm in ([2, 0, 1], [-1, 0, 1])],
    "shape": [_case(X), _case(WHOLE[0])],
    "concat": [
        *(_case({"values": [x, x[:, :1]]}, axis=1) for x in (X, WHOLE, TRUTHS)),
        # coremltools' own value forgets that they are interleaved
        _case({"values": [X, -X]}, np.stack([X, -X], -1).reshape(2, 3, 8), axis=-1, interleave=True),
        _case({"values": [np.int32(3), np.int32(4)]}, np.array([3, 4], "int32"), axis=0),
    ],
    "stack": [_case({"values": [x, x[::-1].copy()]}, axis=axis) for x in (X, TRUTHS) for axis in (0, -1)],
    "split": [
        _case(X, num_splits=3, axis=1),
        _case(WHOLE, split_sizes=[1, 3], axis=2),
        _case(X, num_splits=2, split_sizes=[1, 2], axis=1),
    ],
    "tile": [_case(x, reps=[2, 1, 3]) for x in (X, TRUTHS)],
    "pad": [
        _case(HOLED, pad=[1, 2]),
        _case(X, pad=[1, 0, 0, 2], constant_val=-1.5),
        _case(X, pad=[0, 1, 2, 3, 4, 5], constant_val=np.nan),
        *(_case(HOLED, pad=[2, 1, 0, 3], mode=mode) for mode in ("reflect", "replicate")),
        _case(X, _padded((3, 2), "reflect"), pad=[3, 2], mode="reflect"),
        _case(X, _padded((3, 9), "replicate"), pad=[3, 9], mode="replicate"),
    ],
    "reverse": [_case(X), _case(X, axes=[0]), _case(WHOLE, axes=[-1, 0]), _case(TRUTHS, axes=[1])],
    "fill": [
        _case({"shape": _ints(2, 3)}, np.full((2, 3), 1.5, "float32"), value=1.5),
        _case({"shape": _ints(4)}, np.full(4, True), value=True),
    ],
    "fill_like": [
        _case({"ref_tensor": X}, np.full(X.shape, np.nan, "float32"), value=np.nan),
        _case({"ref_tensor": X}, np.full(X.shape, 3, "int32"), value=np.int32(3)),
    ],
    "band_part": [
        *(_case(X, lower=low, upper=up) for low, up in ((0, -1), (1, 2))),
        # coremltools multiplies by 0, which keeps NaN; its description says that what is outside becomes zero
        _case(HOLED, np.tril(HOLED), lower=-1, upper=0),
        _case(TRUTHS, lower=0, upper=-1),
    ],
}


def test_a_fill_is_a_tensor_of_its_own(mil):
    (filled,) = mil.run("fill_like", {"ref_tensor": X}, value=1.0)
    filled += 1
    assert (filled == 2).all()


DEEP = np.arange(2 * 8 * 2 * 3, dtype="float32").reshape(2, 8, 2, 3)
WIDE = np.arange(2 * 2 * 4 * 6, dtype="float32").reshape(2, 2, 4, 6)
IMAGE = np.random.default_rng(0).normal(size=(1, 2, 4, 6)).astype("float32")
LINE = IMAGE[:, :, :, :1]
LONG = np.random.default_rng(1).normal(size=(1, 3, 600, 1)).astype("float32")


def _linear(size, corners=False):
    return lambda x: F.interpolate(x, size=size, mode="bilinear", align_corners=corners)


def _nearest(size):
    return lambda x: F.interpolate(x, size=size, mode="nearest")


def _up(x, height, width, expected, **more):
    return {"inputs": x, "scale_factor_height": height, "scale_factor_width": width, "expected": expected, **more}


def _column(*numbers):
    return np.array(numbers, "float32").reshape(1, 1, -1, 1)


HALVES = _column(0, 0.5, 1, 1.5, 2, 2).astype("float64")
CASES |= {
    "pixel_shuffle": [_case(DEEP, lambda x: F.pixel_shuffle(x, 2), upscale_factor=2)],
    "pixel_unshuffle": [_case(WIDE, lambda x: F.pixel_unshuffle(x, 2), downscale_factor=np.uint32(2))],
    "upsample_nearest_neighbor": [
        _up(IMAGE, 2, 3, _nearest((8, 18))),
        _up(IMAGE, 1.5, 0.5, _nearest((6, 3)), half=False),  # MIL has no float16 factors
    ],
    "upsample_bilinear": [
        _up(IMAGE, 2, 3, _linear((8, 18), True), align_corners=True),
        _up(IMAGE, 2, 3, _linear((8, 18)), align_corners=False),
        _up(LINE, 300, 1, _linear((1200, 1)), align_corners=False),
        # down by 300, as Kokoro's source does with its phase
        _up(LONG, 1 / 300, 1.0, _linear((2, 1)), align_corners=False, half=False),
        _up(IMAGE, 2, 1, _linear((8, 6)), align_corners=False, half_pixel_centers=True),
        _up(_column(0, 1, 2), 2, 1, HALVES, align_corners=False, half_pixel_centers=False),
    ],
}


BOTH = {"align_corners": True, "half_pixel_centers": True}
REFUSED = [
    ("pad", X, {"pad": [4, 0], "mode": "reflect"}, "pad 'result' mirrors 4 elements of an axis of 4; it can mirror 3"),
    ("upsample_bilinear", IMAGE, BOTH, "which exclude each other"),
]


def test_nan_goes_through(mil):
    x = _column(0, 0, np.nan, 0)
    (y,) = mil.run("upsample_bilinear", x, scale_factor_height=3, scale_factor_width=1, align_corners=False)
    wanted = F.interpolate(torch.tensor(x), scale_factor=(3, 1), mode="bilinear").numpy()
    np.testing.assert_array_equal(np.isnan(y), np.isnan(wanted))
    assert np.isnan(y).any()
