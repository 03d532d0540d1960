"""Order, and running sums."""

import numpy as np
import torch

X = np.random.default_rng(0).permutation(24).astype("float32").reshape(2, 3, 4)
WHOLE = X.astype("int32") - 12
ODD = np.array([[1.0, np.nan, -2.0, np.inf], [-np.inf, 3.0, np.nan, 0.0]], "float32")


def _sums(axis, exclusive, reverse):
    def expected(x):
        x = x.flip(axis) if reverse else x
        sums = torch.cumsum(x, axis)
        sums = sums - x if exclusive else sums
        return (sums.flip(axis) if reverse else sums).to(torch.int32 if not x.is_floating_point() else x.dtype)

    return expected


CASES = {
    "argsort": [
        {"inputs": x, "axis": axis, "ascending": ascending}
        for x, axis in ((X, 0), (WHOLE, -1), (ODD, -1))
        for ascending in (True, False)
    ],
    "topk": [
        {"inputs": x, "k": k, "axis": axis, "ascending": ascending}
        for x, k, axis in ((X, 1, -1), (WHOLE, 2, 0))
        for ascending in (True, False)
    ]
    + [
        {"inputs": ODD, "k": 3},
        {"inputs": X, "k": 2, "return_indices": False},
    ],
    "cumsum": [
        {
            **{"inputs": x, "axis": axis, "exclusive": exclusive, "reverse": reverse},
            # coremltools' own value fails where it is exclusive
            **({"expected": _sums(axis, exclusive, reverse)} if exclusive else {}),
        }
        for x, axis in ((X, 0), (WHOLE, -1))
        for exclusive in (False, True)
        for reverse in (False, True)
    ]
    + [{"inputs": ODD, "axis": 1}],
}


def test_equal_elements_keep_their_order(mil):
    x = np.array([1.0, 0.0, 1.0, 0.0], "float32")
    assert mil.run("argsort", x, ascending=True)[0].tolist() == [1, 3, 0, 2]
    assert mil.run("argsort", x, ascending=False)[0].tolist() == [0, 2, 1, 3]


def test_places_of_the_largest_can_be_asked_for_in_16_bits(mil):
    values, places = mil.run("topk", X, k=1, output_indices_dtype="uint16")
    assert (values.dtype, places.dtype) == (np.float32, np.uint16)
    np.testing.assert_array_equal(places[..., 0], X.argmax(-1))
