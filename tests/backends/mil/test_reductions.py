"""Sums, means, extremes."""

import numpy as np
import pytest
import torch

from kokoro_nb.backends.mil.rounding import STRICT

X = np.random.default_rng(0).normal(size=(2, 3, 4)).astype("float32")
WHOLE = np.arange(-11, 13, dtype="int32").reshape(2, 3, 4)
ODD = np.array([[1.0, np.nan, -2.0], [np.inf, 1.0, 3.0], [-np.inf, np.inf, 0.0], [-0.0, 0.0, 0.0]], "float32")
AXES = [None, [0], [-1], [1, 2], [0, -1], [0, 1, 2]]


def _over_axes(x, extra=()):
    cases = []
    for axes in AXES:
        for keep in (True, False):
            attributes = {"keep_dims": keep} if axes is None else {"axes": np.array(axes, "int32"), "keep_dims": keep}
            cases.append({"inputs": {"x": x}, "attributes": attributes})
    return cases + [{"inputs": {"x": one}, "attributes": {"axes": np.array([1], "int32")}} for one in extra]


def _over_axis(x):
    return [
        {"inputs": {"x": x}, "attributes": {"axis": axis, "keep_dims": keep}, "half": half}
        for axis in (0, 1, -1)
        for keep in (True, False)
        for half in (False,)  # float16 makes equals of what was not
    ]


CASES = {
    "reduce_sum": _over_axes(X, [ODD, WHOLE]),
    "reduce_mean": _over_axes(X, [ODD, WHOLE]),
    "reduce_prod": _over_axes(X, [ODD, WHOLE]),
    "reduce_max": _over_axes(X, [ODD, WHOLE]),
    "reduce_min": _over_axes(X, [ODD, WHOLE]),
    "reduce_sum_square": _over_axes(X, [ODD, WHOLE]),
    "reduce_l1_norm": _over_axes(X, [ODD, WHOLE]),
    "reduce_l2_norm": _over_axes(X, [ODD, WHOLE]),
    "reduce_log_sum": _over_axes(np.abs(X), [np.abs(WHOLE) + 1]),
    "reduce_log_sum_exp": _over_axes(X, [ODD, WHOLE]),
    "reduce_argmax": [*_over_axis(X), *_over_axis(WHOLE), {"inputs": {"x": ODD}, "attributes": {"axis": 1}}],
    "reduce_argmin": [*_over_axis(X), *_over_axis(WHOLE), {"inputs": {"x": ODD}, "attributes": {"axis": 1}}],
}


def test_operator(mil, kind, case):
    mil.check(kind, case)


def test_places_can_be_asked_for_in_16_bits(mil):
    (places,) = mil.run("reduce_argmax", {"x": X}, {"axis": -1, "output_dtype": "uint16"})
    assert places.dtype == np.uint16
    np.testing.assert_array_equal(places, X.argmax(axis=-1))


@pytest.mark.parametrize("kind", ["reduce_sum", "reduce_mean"])
def test_a_strict_sum_runs_into_the_end_of_float16(mil, kind):
    # 64 terms of 2000 pass 65504, though their mean does not.
    x = np.full((1, 64), 2000.0, np.float16)
    assert np.isinf(mil.run(kind, {"x": x}, {"axes": np.array([1], "int32")}, arithmetic=STRICT)[0]).all()
    (mean,) = mil.run("reduce_mean", {"x": x}, {"axes": np.array([1], "int32")})
    assert mean.tolist() == [2000.0]


def test_a_strict_sum_stops_growing(mil):
    # From 2048 on float16 has even numbers alone: one more 1 is rounded away.
    x = np.ones((1, 3000), np.float16)
    assert mil.run("reduce_sum", {"x": x}, {"axes": np.array([1], "int32")}, arithmetic=STRICT)[0].tolist() == [2048.0]
    assert mil.run("reduce_sum", {"x": x}, {"axes": np.array([1], "int32")})[0].tolist() == [3000.0]


def test_integers_that_outgrow_32_bits_wrap_around(mil):
    x = np.full((1, 3), 2**30, "int32")
    assert mil.run("reduce_sum", {"x": x}, {"axes": np.array([1], "int32")})[0].tolist() == [3 * 2**30 - 2**32]
    assert torch.tensor(x).sum(dtype=torch.int32).tolist() == 3 * 2**30 - 2**32
