"""What the rules are made of, on single functions of tensor expressions."""

import math

import numpy as np
import pytest

from kokoro_nb.backends.tvm.schedule.contraction import contraction
from kokoro_nb.backends.tvm.schedule.loop_rules import Processor, schedule_of
from kokoro_nb.backends.tvm.schedule.rows import rowwise
from kokoro_nb.backends.tvm.schedule.structure import nests

AVX512 = Processor(16, 32)


@pytest.fixture(scope="module")
def call(here):
    """Build a function of loops and call it; the last parameter is the result."""
    import tvm

    def call(function, *arrays):
        library = tvm.tirx.build(function.with_attr("global_symbol", "main"), here, pipeline="s_tir")
        result = tvm.runtime.tensor(np.full([int(n) for n in function.params[-1].shape], np.nan, np.float32))
        library["main"](*(tvm.runtime.tensor(array) for array in arrays), result)
        return result.numpy()

    return call


def _unary(function, *shape):
    from tvm import te

    x = te.placeholder(shape, name="x")
    return te.create_prim_func([x, te.compute(shape, lambda *i: function(x[i]), name="y")])


def _contraction(expression, extents, reduced, **shapes):
    """Return the contraction of two operands whose indices are given as functions of the axes."""
    from tvm import te

    a, b = (te.placeholder(shape, name=name) for name, shape in shapes.items())
    axes = [te.reduce_axis((0, n)) for n in reduced]
    result = te.compute(extents, lambda *i: te.sum(expression(a, b, *i, *axes), axis=axes), name="result")
    return contraction(nests(te.create_prim_func([a, b, result]))[0])


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        (lambda a, b, i, j, k: a[i, j, k] * b[i, j, k], "both operands change along the columns"),
        (lambda a, b, i, j, k: a[i, j, k] + b[i, j, k], "no product"),
        (lambda a, b, i, j, k: a[i, k, j * j] * b[i, k, 0], "columns that are not evenly spaced"),
        (lambda a, b, i, j, k: a[i, j, k] * b[i, k, 0] * 2.0, "three factors"),
    ],
)
def test_other_sums_are_no_contractions(expression, reason):
    assert _contraction(expression, (2, 2), (2,), a=(2, 2, 2), b=(2, 2, 2)) is None, reason


ANGLES = {
    "within a turn": np.linspace(-7, 7, 600),
    "many turns": np.linspace(-(2.0**27.9), 2.0**27.9, 600),
    "multiples of a quarter": np.arange(-300, 300) * (math.pi / 2),
    "small": np.r_[10.0 ** np.linspace(-44, 0, 598), 0.0, -0.0],
    "huge": np.r_[np.linspace(-3, 3, 598), 2.0**28, -3e38],
    "not finite": np.r_[np.linspace(-3, 3, 597), np.inf, -np.inf, np.nan],
}


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_sines_are_those_of_float64(call, name):
    from tvm import tirx

    x = np.array(list(ANGLES.values()), np.float32)
    function = rowwise(_unary(getattr(tirx, name), *x.shape), AVX512, ()).mod["main"]
    assert "nearbyint" in function.script()  # the polynomial is there, the other rows take the C library's
    found = call(function, x)
    with np.errstate(invalid="ignore"):
        expected = getattr(np, name)(x.astype(np.float64))
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    spacing = np.spacing(np.abs(np.nan_to_num(expected, nan=1.0)).astype(np.float32))
    errors = np.nanmax(np.abs(found - expected) / spacing, axis=1)  # in units of the last place; 0.5 is exact
    for row, error in zip(ANGLES, errors, strict=True):
        assert error < (0.502 if row not in ("huge", "not finite") else 0.6), row  # glibc promises 0.56 or so
    np.testing.assert_array_equal(np.signbit(found[3, -2:]), np.signbit(expected[3, -2:]))


def test_a_schedule_does_not_reach_the_function_that_its_own_shares_loops_with():
    from tvm import s_tir

    def fused(schedule):
        schedule.fuse(*schedule.get_loops("y"))

    function = _unary(lambda value: value + 1.0, 8, 8)
    before = function.script()
    fused(schedule_of(function.with_attr("name", "another")))
    assert function.script() == before
    fused(s_tir.Schedule(function.with_attr("name", "another")))  # TVM alone; once this fails, the copy can go
    assert function.script() != before
