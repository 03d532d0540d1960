"""Sums, means, extremes, order and running sums."""

import numpy as np
import pytest
import torch

from kokoro_nb.backends.mil.rounding import STRICT

X = np.random.default_rng(0).normal(size=(2, 3, 4)).astype("float32")
WHOLE = np.arange(-11, 13, dtype="int32").reshape(2, 3, 4)
ODD = np.array([[1.0, np.nan, -2.0], [np.inf, 1.0, 3.0], [-np.inf, np.inf, 0.0], [-0.0, 0.0, 0.0]], "float32")
AXES = [{}, *({"axes": axes} for axes in ([-1], [0, 1]))]


def _over_axes(x, *extra):
    cases = [{"inputs": x, "keep_dims": keep, **axes} for axes in AXES for keep in (True, False)]
    return cases + [{"inputs": one, "axes": [1]} for one in extra]


def _over_axis(x):
    # float16 makes equals of what was not
    return [{"inputs": x, "axis": axis, "keep_dims": k, "half": False} for axis in (0, 1, -1) for k in (True, False)]


SUMS = ("sum", "mean", "prod", "max", "min", "sum_square", "l1_norm", "l2_norm", "log_sum_exp")
PLACES = (*_over_axis(X), *_over_axis(WHOLE), {"inputs": ODD, "axis": 1})
CASES = {
    **dict.fromkeys((f"reduce_{name}" for name in SUMS), _over_axes(X, ODD, WHOLE)),
    "reduce_log_sum": _over_axes(np.abs(X), np.abs(WHOLE) + 1),
    **dict.fromkeys(("reduce_argmax", "reduce_argmin"), PLACES),
}


def test_places_can_be_requested_in_16_bits(mil):
    (places,) = mil.run("reduce_argmax", X, axis=-1, output_dtype="uint16")
    assert places.dtype == np.uint16
    np.testing.assert_array_equal(places, X.argmax(axis=-1))


ONES, LOUD = np.ones((1, 3000), np.float16), np.full((1, 64), 2000.0, np.float16)
WRITTEN = {"data": np.array([2048.0], "float16"), "indices": np.zeros(3, "int32"), "updates": np.ones(3, "float16")}


# From 2048 on float16 has even numbers alone: one more 1 is rounded away. 64 terms of 2000 pass 65504.
@pytest.mark.parametrize(
    ("kind", "inputs", "constants", "strict", "wide"),
    [
        ("reduce_sum", ONES, {"axes": [1]}, 2048.0, 3000.0),
        ("linear", ONES, {"weight": ONES}, 2048.0, 3000.0),
        ("conv", ONES[None], {"weight": ONES[None]}, 2048.0, 3000.0),
        ("conv_transpose", ONES[..., None], {"weight": ONES.reshape(3000, 1, 1)}, 2048.0, 3000.0),
        ("cumsum", ONES, {"axis": 1}, 2048.0, 3000.0),
        ("scatter", WRITTEN, {"mode": "add"}, 2048.0, 2052.0),  # 2051 is no float16
        ("reduce_sum", LOUD, {"axes": [1]}, np.inf, np.inf),
        ("reduce_mean", LOUD, {"axes": [1]}, np.inf, 2000.0),
    ],
)
def test_a_strict_sum_rounds_at_every_step(mil, kind, inputs, constants, strict, wide):
    assert mil.run(kind, inputs, arithmetic=STRICT, **constants)[0].ravel()[-1] == strict
    assert mil.run(kind, inputs, **constants)[0].ravel()[-1] == wide


def test_integers_that_outgrow_32_bits_wrap_around(mil):
    x = np.full((1, 3), 2**30, "int32")
    assert mil.run("reduce_sum", x, axes=[1])[0].tolist() == [3 * 2**30 - 2**32]


UNSORTED = np.random.default_rng(0).permutation(24).astype("float32").reshape(2, 3, 4)
RANKS = UNSORTED.astype("int32") - 12
UNEVEN = np.array([[1.0, np.nan, -2.0, np.inf], [-np.inf, 3.0, np.nan, 0.0]], "float32")


def _sums(axis, exclusive, reverse):
    def expected(x):
        x = x.flip(axis) if reverse else x
        sums = torch.cumsum(x, axis)
        sums = sums - x if exclusive else sums
        return (sums.flip(axis) if reverse else sums).to(torch.int32 if not x.is_floating_point() else x.dtype)

    return expected


SORTED = {"inputs": UNSORTED, "axis": 0}, {"inputs": RANKS, "axis": -1}
CASES |= {
    "argsort": [{**one, "ascending": up} for one in (*SORTED, {"inputs": UNEVEN, "axis": -1}) for up in (True, False)],
    "topk": [
        *({**one, "k": k, "ascending": up} for k, one in zip((2, 1), SORTED, strict=True) for up in (True, False)),
        *({"inputs": UNEVEN, "k": 3}, {"inputs": UNSORTED, "k": 2, "return_indices": False}),
    ],
    "cumsum": [
        *({**one, "exclusive": False, "reverse": reverse} for one in SORTED for reverse in (False, True)),
        # coremltools' own value fails where it is exclusive
        *(
            {**one, "exclusive": True, "reverse": reverse, "expected": _sums(one["axis"], True, reverse)}
            for one in SORTED
            for reverse in (False, True)
        ),
        {"inputs": UNEVEN, "axis": 1},
    ],
}


def test_equal_elements_keep_their_order(mil):
    x = np.array([1.0, 0.0, 1.0, 0.0], "float32")
    assert mil.run("argsort", x, ascending=True)[0].tolist() == [1, 3, 0, 2]
    assert mil.run("argsort", x, ascending=False)[0].tolist() == [0, 2, 1, 3]
