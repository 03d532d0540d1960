"""Slices, ranges and windows, with every sign and at every edge."""

import numpy as np
import pytest

X = np.arange(60, dtype="float32").reshape(3, 4, 5)
WHOLE, TRUTHS = X.astype("int32"), X > 17
ROW = np.arange(7, dtype="float32")


def _ints(*numbers):
    return np.array(numbers, "int32")


def _slice(x, begin, end, **more):
    masks = {n: np.array(v, bool) for n, v in more.items() if n.endswith("mask")}
    steps = {n: _ints(*v) for n, v in more.items() if n == "stride"}
    return {"inputs": {"x": x}, "attributes": {"begin": _ints(*begin), "end": _ints(*end), **steps, **masks}}


def _expecting(case, expected):
    return {**case, "expected": expected}


# Every begin, end and stride of one axis that MIL allows, against NumPy's slices. What is left out coremltools refuses.
PLAIN = [
    ((begin,), (end,), (stride,))
    for begin in (-9, -3, -1, 0, 2, 6)
    for end in (-8, -2, 0, 3, 7, 9)
    for stride in (1, 2, 3, -1, -2)
]


def _update(x, update, begin, end, **more):
    case = _slice(x, begin, end, **more)
    return {**case, "inputs": {"x": x, "update": update}, "opset": "iOS18"}


CASES = {
    "slice_by_index": [
        _slice(X, (0, 1, 2), (2, 3, 4)),
        _slice(WHOLE, (0, 0, 1), (3, 4, 5), stride=(2, 3, 2)),
        _slice(TRUTHS, (-2, -3, -1), (-1, -1, 5)),
        _slice(X, (1, 9, 9), (0, 0, 0), begin_mask=(False, True, True), end_mask=(True, True, True)),
        _slice(X, (9, 9, -2), (9, 9, -5), begin_mask=(1, 1, 0), end_mask=(1, 1, 0), stride=(1, 1, -1)),
        _slice(X, (9, 9, 9), (9, 9, 9), begin_mask=(1, 1, 1), end_mask=(1, 1, 1), stride=(-1, 2, -2)),
        _slice(X, (1, 0, -1), (9, 4, 0), squeeze_mask=(True, False, True)),
        _slice(X, (-1, 2, 0), (0, 0, 5), squeeze_mask=(True, True, False)),
        _slice(WHOLE, (2, 3, 4), (0, 0, 0), squeeze_mask=(True, True, True)),
        _expecting(_slice(X, (9, 1, 0), (0, 2, 5), begin_mask=(1, 0, 0), squeeze_mask=(1, 0, 0)), X[0, 1:2]),
        _slice(X, (0, 2, 0), (3, 2, 5)),  # nothing
    ],
    "slice_update": [
        _update(X, -X[:2, 1:3, 2:4], (0, 1, 2), (2, 3, 4)),
        _update(WHOLE, -WHOLE[::2, ::3, 1::2], (0, 0, 1), (3, 4, 5), stride=(2, 3, 2)),
        _update(X, -X[1:2], (1, 9, 9), (2, 0, 0), begin_mask=(0, 1, 1), end_mask=(0, 1, 1)),
        _update(X, -X[-1], (-1, 0, 0), (0, 4, 5), squeeze_mask=(True, False, False)),
        _update(X, -X[:, :, ::-1], (0, 0, 9), (3, 4, 9), begin_mask=(0, 0, 1), end_mask=(0, 0, 1), stride=(1, 1, -1)),
    ],
    "slice_by_size": [
        {"inputs": {"x": X}, "attributes": {"begin": _ints(0, 1, 2), "size": _ints(2, 3, 1)}},
        {"inputs": {"x": WHOLE}, "attributes": {"begin": _ints(1, -2, -5), "size": _ints(-1, 2, 4)}},
    ],
    "crop": [
        {
            "inputs": {"x": X},
            "attributes": {"crop_height": _ints(1, 0), "crop_width": _ints(2, 1)},
            "expected": X[:, 1:, 2:-1],
        }
    ],
    "sliding_windows": [
        {
            "inputs": {"x": X},
            "attributes": {"axis": axis, "size": 2, "stride": stride},
            "expected": np.moveaxis(np.lib.stride_tricks.sliding_window_view(X, 2, axis), -1, axis % 3 + 1)[
                (slice(None),) * (axis % 3) + (slice(None, None, stride),)
            ],
        }
        for axis in (0, 1, -1)
        for stride in (1, 2)
    ],
    "range_1d": [
        {"inputs": {}, "attributes": {"start": np.int32(2), "end": np.int32(11), "step": np.int32(3)}},
        {"inputs": {}, "attributes": {"start": np.int32(5), "end": np.int32(-1), "step": np.int32(-2)}},
        {"inputs": {}, "attributes": {"start": np.float32(0), "end": np.float32(1), "step": np.float32(0.3)}},
        {
            "inputs": {"start": np.float32(0), "end": np.float32(2), "step": np.float32(0.125)},
            "expected": np.arange(0, 2, 0.125),
        },
    ],
    "one_hot": [
        {
            "inputs": {"indices": _ints(2, 0, 3)},
            "attributes": {
                "one_hot_vector_size": 4,
                "axis": axis,
                "on_value": np.float32(2),
                "off_value": np.float32(-1),
            },
            "expected": np.moveaxis(3 * np.eye(4, dtype="float32")[[2, 0, 3]] - 1, -1, axis),
        }
        for axis in (-1, 0, 1, -2)
    ]
    + [
        {
            "inputs": {"indices": _ints(-1, 0, 5)},
            "attributes": {"one_hot_vector_size": 2},
            "expected": _ints(0, 0, 1, 0, 0, 0).reshape(3, 2),
        }
    ],
    "non_zero": [
        {"inputs": {"x": np.array([[0.0, -0.0, 2.0], [np.nan, 0.0, -1.0]], "float32")}},
        {"inputs": {"x": TRUTHS}},
    ],
}


def test_operator(mil, kind, case):
    mil.check(kind, case)


@pytest.mark.parametrize("sign", [1, -1])
def test_every_slice_is_numpys(mil, sign):
    checked = 0
    for begin, end, stride in PLAIN:
        expected = ROW[begin[0] : end[0] : stride[0]]
        if np.sign(stride[0]) != sign:
            continue
        attributes = {"begin": _ints(*begin), "end": _ints(*end), "stride": _ints(*stride)}
        try:
            declared = mil.build("slice_by_index", {"x": ROW}, attributes)[2][0].shape
        except ValueError:
            continue  # coremltools refuses an end before its begin
        if declared != expected.shape:
            continue  # and takes a begin or end far out of range for another
        np.testing.assert_array_equal(mil.run("slice_by_index", {"x": ROW}, attributes)[0], expected)
        checked += 1
    assert checked > 30


def test_bounds_that_are_no_constants(mil):
    (part,) = mil.run("slice_by_index", {"x": ROW, "begin": _ints(1), "end": _ints(-2)}, {})
    np.testing.assert_array_equal(part, ROW[1:-2])


@pytest.mark.parametrize(
    ("kind", "inputs", "attributes"),
    [
        ("slice_by_index", {"x": ROW, "begin": _ints(9), "end": _ints(0)}, {"squeeze_mask": np.array([True])}),
        ("slice_by_size", {"x": ROW, "begin": _ints(5), "size": _ints(3)}, {}),
        ("slice_by_size", {"x": ROW, "begin": _ints(-8), "size": _ints(1)}, {}),
    ],
)
def test_a_place_beyond_the_end_is_an_error(mil, kind, inputs, attributes):
    with pytest.raises(IndexError, match="out of range for an axis of 7"):
        mil.run(kind, inputs, attributes)


def test_an_update_changes_its_result_alone(mil):
    x, update = X.copy(), np.full((1, 4, 5), np.nan, "float32")
    (result,) = mil.run(
        "slice_update", {"x": x, "update": update}, {"begin": _ints(1, 0, 0), "end": _ints(2, 4, 5)}, "iOS18"
    )
    np.testing.assert_array_equal(x, X)
    assert np.isnan(result[1]).all()
    np.testing.assert_array_equal(result[[0, 2]], X[[0, 2]])
