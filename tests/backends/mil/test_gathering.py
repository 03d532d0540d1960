"""Reading and writing at places that are values."""

import operator

import numpy as np
import torch

from kokoro_nb.backends.mil.operators.gathering import gather
from kokoro_nb.backends.mil.operators.registry import OperatorSite

X = np.random.default_rng(0).normal(size=(3, 4, 5)).astype("float32")
WHOLE = np.arange(60, dtype="int32").reshape(3, 4, 5)
# Each combines two numbers, as the description of scatter has it.
MODES = {"update": lambda old, new: new, "div": operator.truediv, "max": max, "min": min}
MODES |= {"add": operator.add, "sub": operator.sub, "mul": operator.mul}


def _ints(numbers):
    return np.array(numbers, "int32")


def _scatter(mode, data, indices, shape, place, **constants):
    """Return a case, its result written one number after the other: `place` is the target of a place of the updates."""
    updates = (np.arange(np.prod(shape)).reshape(shape) % 7 + 1).astype(data.dtype)
    result = np.array(data, "float64" if data.dtype.kind == "f" else data.dtype)
    for source in np.ndindex(*shape):
        target = place(source)
        result[target] = MODES[mode](result[target], updates[source].astype(result.dtype))
    inputs = {"data": data, "indices": indices, "updates": updates}
    return {"inputs": inputs, "mode": mode, "expected": result, **constants}


def _slices(mode, data, indices, axis):
    shape = (*data.shape[:axis], len(indices), *data.shape[axis + 1 :])
    return _scatter(mode, data, indices, shape, lambda at: (*at[:axis], indices[at[axis]], *at[axis + 1 :]), axis=axis)


def _along(mode, data):
    return _scatter(mode, data, ALONG, ALONG.shape, lambda at: (ALONG[at], *at[1:]), axis=0)


def _nd(mode, data, indices):
    depth = indices.ndim - 1
    shape = (*indices.shape[:-1], *data.shape[indices.shape[-1] :])
    return _scatter(mode, data, indices, shape, lambda at: (*indices[at[:depth]], *at[depth:]))


TWICE, ONCE = _ints([2, 0, 2]), _ints([1, 0])
ALONG = _ints([[[1, 0, 2, 1, 0]] * 4])
PAIRS, APART = _ints([[0, 1], [2, 3], [0, 1]]), [[[3, 1]], [[0, 0]], [[2, 4]]]


def _gather(x, indices, **more):
    return {"inputs": {"x": x, "indices": _ints(indices)}, **more}


CASES = {
    "gather": [
        *(_gather(x, [[0, 2], [1, 1]], axis=1) for x in (X, WHOLE)),
        _gather(X, 1, axis=-2),
        _gather(X, [-1, 0, -3], axis=0, opset="iOS16"),
        _gather(X, [[0, 4], [1, 1], [2, 0]], axis=2, batch_dims=1),
    ],
    "gather_along_axis": [
        *(_gather(x, np.concatenate([ALONG, ALONG[:, ::-1]]), axis=0) for x in (X, WHOLE)),
        _gather(X, np.arange(24).reshape(3, 4, 2) % 5, axis=-1),
    ],
    "gather_nd": [
        _gather(X, PAIRS, expected=X[[0, 2, 0], [1, 3, 1]]),
        _gather(WHOLE, [[[0, 1, 4]], [[2, 3, 0]]], expected=WHOLE[[[0], [2]], [[1], [3]], [[4], [0]]]),
        _gather(X, APART, batch_dims=1, expected=X[[[0], [1], [2]], [[3], [0], [2]], [[1], [0], [4]]]),
    ],
    "scatter": [*(_slices(mode, X, TWICE, 1) for mode in MODES), _slices("add", WHOLE, ONCE, 2)],
    "scatter_along_axis": [*(_along(mode, X) for mode in MODES), _along("update", WHOLE)],
    "scatter_nd": [*(_nd(mode, X, PAIRS) for mode in MODES), _nd("update", X, _ints([[1]]))],
}


FAR = 200 * np.ones((1, 4, 5), "int32")
OUTSIDE, DIVIDED = r"'result' has index 200, out of range for an axis of \d", {"data": WHOLE, "updates": WHOLE[:2]}
REFUSED = [
    ("gather", {"x": X, "indices": _ints([0, 200])}, {}, f"gather {OUTSIDE}"),
    ("gather", {"x": X, "indices": _ints([-1])}, {}, "index -1, out of range"),  # from iOS 17 on
    ("scatter_along_axis", {"data": X, "indices": FAR, "updates": X[:1]}, {}, f"scatter_along_axis {OUTSIDE}"),
    ("scatter_nd", {"data": X, "indices": _ints([[200]]), "updates": X[:1]}, {}, f"scatter_nd {OUTSIDE}"),
    ("scatter", DIVIDED | {"indices": ONCE}, {"mode": "div"}, "divides integers"),
]


def test_sizes_are_taken_in_16_bits():
    sizes = torch.tensor([1, 700, 22], dtype=torch.uint16)  # as a float16 file holds them
    taken = gather(OperatorSite("gather", "size", 8, (torch.uint16,)), sizes, torch.tensor([1]), 0)
    assert (taken.dtype, taken.tolist()) == (torch.uint16, [700])


def test_the_data_stay_as_they_are(mil):
    data = X.copy()
    mil.run("scatter", {"data": data, "indices": ONCE, "updates": X[:2]}, mode="add")
    np.testing.assert_array_equal(data, X)
