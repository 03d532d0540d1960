"""Slices, ranges and windows, with every sign and at every edge."""

import numpy as np

X = np.arange(60, dtype="float32").reshape(3, 4, 5)
WHOLE, TRUTHS = X.astype("int32"), X > 17
ROW = np.arange(7, dtype="float32")


def _ints(*numbers):
    return np.array(numbers, "int32")


def _flags(text):
    """Return a mask: one letter for each axis, a point where it is not set."""
    return [letter != "." for letter in text]


def _slice(x, begin, end, masks=("...", "...", "..."), **more):
    names = ("begin_mask", "end_mask", "squeeze_mask")
    flags = {name: _flags(mask) for name, mask in zip(names, masks, strict=True) if mask != "..."}
    return {"inputs": x, "begin": begin, "end": end, **flags, **more}


def _update(x, update, *more, **stride):
    return {**_slice(x, *more, **stride), "inputs": {"x": x, "update": update}, "opset": "iOS18"}


def _hot(indices, size, expected, **more):
    return {"inputs": {"indices": indices}, "one_hot_vector_size": size, "expected": expected, **more}


EIGHTHS = {"start": np.float32(0), "end": np.float32(2), "step": np.float32(0.125)}
HOT, LEVELS = 3 * np.eye(4, dtype="float32")[[2, 0, 3]] - 1, {"on_value": 2.0, "off_value": -1.0}
CASES = {
    "slice_by_index": [
        _slice(WHOLE, [0, 0, 1], [3, 4, 5], stride=[2, 3, 2]),
        _slice(TRUTHS, [-2, -3, -1], [-1, -1, 5]),
        _slice(X, [1, 9, 9], [0, 0, 0], (".bb", "eee", "...")),
        _slice(X, [1, 0, -1], [9, 4, 0], ("...", "...", "s.s")),
        _slice(X, [9, 1, 0], [0, 2, 5], ("b..", "...", "s.."), expected=X[0, 1:2]),
        _slice(X, [0, 2, 0], [3, 2, 5]),  # nothing
    ],
    "slice_update": [
        _update(WHOLE, -WHOLE[::2, ::3, 1::2], [0, 0, 1], [3, 4, 5], stride=[2, 3, 2]),
        _update(X, -X[-1], [-1, 0, 0], [0, 4, 5], ("...", "...", "s..")),
        _update(X, -X[:, :, ::-1], [0, 0, 9], [3, 4, 9], ("..b", "..e", "..."), stride=[1, 1, -1]),
    ],
    "slice_by_size": [
        {"inputs": X, "begin": [0, 1, 2], "size": [2, 3, 1]},
        {"inputs": WHOLE, "begin": [1, -2, -5], "size": [-1, 2, 4]},
    ],
    "crop": [{"inputs": X, "crop_height": [1, 0], "crop_width": [2, 1], "expected": X[:, 1:, 2:-1]}],
    "range_1d": [
        {"inputs": {}, "start": np.int32(2), "end": np.int32(11), "step": np.int32(3)},
        {"inputs": {}, "start": np.int32(5), "end": np.int32(-1), "step": np.int32(-2)},
        {"inputs": EIGHTHS, "expected": np.arange(0, 2, 0.125)},
    ],
    "one_hot": [
        _hot(_ints(-1, 0, 5), 2, _ints(0, 0, 1, 0, 0, 0).reshape(3, 2)),
        *(_hot(_ints(2, 0, 3), 4, HOT.T if axis == 0 else HOT, axis=axis, **LEVELS) for axis in (-1, 0)),
    ],
    "non_zero": [{"inputs": np.array([[0.0, -0.0, 2.0], [np.nan, 0.0, -1.0]], "float32")}, {"inputs": TRUTHS}],
}


def test_bounds_that_are_no_constants(mil):
    (part,) = mil.run("slice_by_index", {"x": ROW, "begin": _ints(1), "end": _ints(-2)})
    np.testing.assert_array_equal(part, ROW[1:-2])


BEYOND, FAR = "out of range for an axis of 7", {"x": ROW, "begin": _ints(9), "end": _ints(0)}
REFUSED = [
    ("slice_by_index", FAR, {"squeeze_mask": [True]}, "index 9 is out of bounds for axis 0"),
    ("slice_by_size", {"x": ROW, "begin": _ints(5), "size": _ints(3)}, {}, BEYOND),
    ("slice_by_size", {"x": ROW, "begin": _ints(-8), "size": _ints(1)}, {}, BEYOND),
]


def test_an_update_changes_its_result_alone(mil):
    x, update = X.copy(), np.full((1, 4, 5), np.nan, "float32")
    (result,) = mil.run("slice_update", {"x": x, "update": update}, "iOS18", begin=[1, 0, 0], end=[2, 4, 5])
    np.testing.assert_array_equal(x, X)
    assert np.isnan(result[1]).all()
    np.testing.assert_array_equal(result[[0, 2]], X[[0, 2]])
