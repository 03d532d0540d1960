"""Reading and writing at places that are values."""

import numpy as np
import pytest

from kokoro_nb.backends.mil.rounding import STRICT
from kokoro_nb.errors import InputError

X = np.random.default_rng(0).normal(size=(3, 4, 5)).astype("float32")
WHOLE = np.arange(60, dtype="int32").reshape(3, 4, 5)
MODES = ("update", "add", "sub", "mul", "div", "max", "min")


def _ints(numbers):
    return np.array(numbers, "int32")


def _apply(mode, old, new):
    """Combine two numbers, as the description of scatter has it."""
    return {
        "update": lambda: new,
        "add": lambda: old + new,
        "sub": lambda: old - new,
        "mul": lambda: old * new,
        "div": lambda: old / new,
        "max": lambda: max(old, new),
        "min": lambda: min(old, new),
    }[mode]()


def _written(data, places, updates, mode):
    """Write one number after the other: `places` gives the target of each place of `updates`."""
    result = np.array(data, "float64" if data.dtype.kind == "f" else data.dtype)
    for source in np.ndindex(*updates.shape):
        target = places(source)
        result[target] = _apply(mode, result[target], updates[source].astype(result.dtype))
    return result


TWICE, ONCE = _ints([2, 0, 2]), _ints([1, 0])
ALONG = _ints([[[1, 0, 2, 1, 0]] * 4])
PAIRS = _ints([[0, 1], [2, 3], [0, 1]])


def _scatter(mode, data, indices, axis):
    shape = (*data.shape[:axis], len(indices), *data.shape[axis + 1 :])
    updates = (np.arange(np.prod(shape)).reshape(shape) % 7 + 1).astype(data.dtype)
    expected = _written(data, lambda at: (*at[:axis], indices[at[axis]], *at[axis + 1 :]), updates, mode)
    inputs = {"data": data, "indices": indices, "updates": updates}
    return {"inputs": inputs, "attributes": {"axis": axis, "mode": mode}, "expected": expected}


def _scatter_along(mode, data, indices, axis):
    updates = (np.arange(indices.size).reshape(indices.shape) % 7 + 1).astype(data.dtype)
    expected = _written(data, lambda at: (*at[:axis], indices[at], *at[axis + 1 :]), updates, mode)
    inputs = {"data": data, "indices": indices, "updates": updates}
    return {"inputs": inputs, "attributes": {"axis": axis, "mode": mode}, "expected": expected}


def _scatter_nd(mode, data, indices):
    shape = (*indices.shape[:-1], *data.shape[indices.shape[-1] :])
    updates = (np.arange(np.prod(shape)).reshape(shape) % 7 + 1).astype(data.dtype)
    depth = indices.ndim - 1
    expected = _written(data, lambda at: (*indices[at[:depth]], *at[depth:]), updates, mode)
    inputs = {"data": data, "indices": indices, "updates": updates}
    return {"inputs": inputs, "attributes": {"mode": mode}, "expected": expected}


CASES = {
    "gather": [
        *(
            {"inputs": {"x": x, "indices": TWICE}, "attributes": {"axis": axis}}
            for x in (X, WHOLE)
            for axis in (0, 1, -1)
        ),
        {"inputs": {"x": X, "indices": _ints([[0, 2], [1, 1]])}, "attributes": {"axis": 1}},
        {"inputs": {"x": X, "indices": np.int32(1)}, "attributes": {"axis": -2}},
        {"inputs": {"x": X, "indices": _ints([-1, 0, -3])}, "attributes": {"axis": 0}, "opset": "iOS16"},
        {"inputs": {"x": X, "indices": _ints([[0, 3], [1, 1], [2, 0]])}, "attributes": {"axis": 1, "batch_dims": 1}},
        {"inputs": {"x": X, "indices": _ints([[0, 4], [1, 1], [2, 0]])}, "attributes": {"axis": 2, "batch_dims": 1}},
    ],
    "gather_along_axis": [
        {"inputs": {"x": x, "indices": np.concatenate([ALONG, ALONG[:, ::-1]])}, "attributes": {"axis": 0}}
        for x in (X, WHOLE)
    ]
    + [{"inputs": {"x": X, "indices": _ints(np.arange(24).reshape(3, 4, 2) % 5)}, "attributes": {"axis": -1}}],
    "gather_nd": [
        {"inputs": {"x": X, "indices": PAIRS}, "expected": X[[0, 2, 0], [1, 3, 1]]},
        {
            "inputs": {"x": WHOLE, "indices": _ints([[[0, 1, 4]], [[2, 3, 0]]])},
            "expected": WHOLE[[[0], [2]], [[1], [3]], [[4], [0]]],
        },
        {
            "inputs": {"x": X, "indices": _ints([[[3, 1]], [[0, 0]], [[2, 4]]])},
            "attributes": {"batch_dims": 1},
            "expected": X[[[0], [1], [2]], [[3], [0], [2]], [[1], [0], [4]]],
        },
    ],
    "scatter": [_scatter(mode, X, TWICE, axis) for mode in MODES for axis in (0, 1)]
    + [_scatter(mode, WHOLE, ONCE, 2) for mode in MODES if mode != "div"],
    "scatter_along_axis": [_scatter_along(mode, X, ALONG, 0) for mode in MODES]
    + [_scatter_along("update", WHOLE, ALONG, 0)],
    "scatter_nd": [_scatter_nd(mode, X, PAIRS) for mode in MODES]
    + [_scatter_nd("add", WHOLE, _ints([[0, 0, 0], [2, 3, 4]])), _scatter_nd("update", X, _ints([[1]]))],
}


def test_operator(mil, kind, case):
    mil.check(kind, case)


OUT_OF_RANGE = {
    "gather": {"x": X, "indices": _ints([0, 200])},
    "gather_along_axis": {"x": X, "indices": 200 * np.ones((1, 4, 5), "int32")},
    "gather_nd": {"x": X, "indices": _ints([[0, 200]])},
    "scatter": {"data": X, "indices": _ints([200]), "updates": X[:1]},
    "scatter_along_axis": {"data": X, "indices": 200 * np.ones((1, 4, 5), "int32"), "updates": X[:1]},
    "scatter_nd": {"data": X, "indices": _ints([[200]]), "updates": X[:1]},
}


@pytest.mark.parametrize("kind", OUT_OF_RANGE)
def test_an_index_out_of_range_is_an_error(mil, kind):
    with pytest.raises(InputError, match=rf"{kind} 'result' has index 200, out of range for an axis of \d"):
        mil.run(kind, OUT_OF_RANGE[kind], {})


def test_a_negative_index_counts_from_the_end_before_ios_17_alone(mil):
    inputs = {"x": X, "indices": _ints([-1])}
    np.testing.assert_array_equal(mil.run("gather", inputs, {}, "iOS16")[0], X[-1:])
    with pytest.raises(InputError, match="index -1, out of range"):
        mil.run("gather", inputs, {}, "iOS17")


def test_integers_are_not_divided(mil):
    with pytest.raises(InputError, match="divides integers"):
        mil.run("scatter", {"data": WHOLE, "indices": ONCE, "updates": WHOLE[:2]}, {"mode": "div"})


def test_the_data_stay_as_they_are(mil):
    data = X.copy()
    mil.run("scatter", {"data": data, "indices": ONCE, "updates": X[:2]}, {"mode": "add"})
    np.testing.assert_array_equal(data, X)


def test_strict_additions_to_one_place_round_one_by_one(mil):
    inputs = {"data": np.array([2048.0, 0.0], "float16"), "indices": _ints([0] * 3), "updates": np.ones(3, "float16")}
    assert mil.run("scatter", inputs, {"mode": "add"}, arithmetic=STRICT)[0].tolist() == [2048.0, 0.0]
    assert mil.run("scatter", inputs, {"mode": "add"})[0].tolist() == [2052.0, 0.0]  # 2051 is no float16
