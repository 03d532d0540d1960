"""Activation functions, and operators on single elements at the edges of their ranges."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from kokoro_nb.backends.mil.rounding import STRICT

EDGES = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.1, -3.0, 4.0, 7.0, -9.0], "float32")
FINITE = np.linspace(-6, 6, 24, dtype="float32").reshape(1, 2, 3, 4)
BOTH = {"alpha": 0.3, "beta": 1.5}
CHANNELS = np.array([0.25, -0.5], "float32")


def _cases(**more):
    return [{"inputs": x, **more} for x in (EDGES, FINITE)]


SPREAD, ALIKE = torch.tensor(CHANNELS).double().reshape(1, 2, 1, 1), {"alpha": CHANNELS, "beta": CHANNELS}
GELUS = ("EXACT", "TANH_APPROXIMATION", "SIGMOID_APPROXIMATION")
CASES = {
    **dict.fromkeys(("relu", "relu6", "sigmoid", "softsign", "softplus"), _cases()),
    **dict.fromkeys(("leaky_relu", "thresholded_relu", "elu"), _cases(alpha=0.3)),
    **dict.fromkeys(("linear_activation", "sigmoid_hard"), _cases(**BOTH)),
    # coremltools infers no value of it; torch gives NaN for -inf, as -inf times 0 is
    "silu": _cases(expected=lambda x: x * (1 / (1 + torch.exp(-x)))),
    "prelu": [{"inputs": FINITE, "alpha": CHANNELS}],
    "softplus_parametric": [
        {"inputs": FINITE, **ALIKE},
        # far out: coremltools' own value overflows
        {"inputs": 400 * FINITE, **ALIKE, "expected": lambda x: SPREAD * F.softplus(SPREAD * x)},
    ],
    "gelu": [{"inputs": x, "mode": mode} for x in (EDGES[3:], FINITE) for mode in GELUS],
    "softmax": [{"inputs": FINITE, "axis": axis} for axis in (-1, 1)]
    + [
        {"inputs": np.array([[0, -np.inf, 1], [-np.inf] * 3, [0, np.inf, 1], [0, np.nan, 1]], "float32")},
        {"inputs": np.array([500.0, 501.0, -800.0], "float32")},  # exp alone would overflow
    ],
}


def test_softplus_does_not_lose_tiny_values(mil):
    # log(1 + exp(-30)) is 9.4e-14; 1 + 9.4e-14 is 1 in float32, whose logarithm is 0
    np.testing.assert_allclose(mil.run("softplus", np.array([-30.0], "float32"))[0], np.exp(-30.0), rtol=1e-6)


NAN, INF = np.nan, np.inf
NUMBERS = np.array([NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, -1.5, 2.5, -2.5, 0.3, -7.25, 11.0], "float32")
WHOLE = np.array([-7, -6, -1, 0, 1, 5, 7, 2**31 - 1, -(2**31)], "int32")
DIVISORS = np.array([-7, -3, -2, -1, 1, 2, 3, 7, 2**31 - 1], "int32")
COLUMN, ROW = np.linspace(-2, 2, 3, dtype="float32").reshape(3, 1), np.linspace(0.5, 3, 4, dtype="float32")
UNIT = np.array([NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 0.5, -0.25, 0.99, 1.5], "float32")


def _pair(x, y, **more):
    return {"inputs": {"x": x, "y": y}, **more}


def _one(x, **more):
    return {"inputs": x, **more}


def _grid(x, y, **more):
    return _pair(*(array.ravel() for array in np.meshgrid(x, y)), **more)


FLOATS = [_grid(NUMBERS, NUMBERS), _pair(COLUMN, ROW), _pair(COLUMN, np.float32(1.25))]
INTEGERS = [_pair(WHOLE, WHOLE[::-1].copy())]
TRUTHS = _grid([True, False], [True, False])
FIRST, SECOND = TRUTHS["inputs"].values()

CASES |= {
    **dict.fromkeys(("add", "sub", "mul", "maximum", "minimum"), FLOATS + INTEGERS),
    **dict.fromkeys(("floor_div", "mod"), (*FLOATS, _grid(WHOLE[:-1], DIVISORS))),
    "real_div": FLOATS,
    "pow": [
        _grid(NUMBERS, NUMBERS, half=False),  # 11 to the power of 11 is beyond float16
        _pair(np.abs(COLUMN), ROW),
        _pair(np.arange(-3, 4, dtype="int32"), np.int32(3)),
    ],
    **dict.fromkeys(("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"), (*FLOATS[:2], *INTEGERS)),
    **dict.fromkeys(("logical_and", "logical_or", "logical_xor"), (TRUTHS,)),
    "logical_not": [_one(FIRST)],
    **dict.fromkeys(("atan", "ceil", "cos", "erf", "exp", "floor", "round", "sin", "sqrt", "tanh"), (_one(NUMBERS),)),
    # the tangent is steep near its poles: 11 is one, and so rounds worse than the rest
    **dict.fromkeys(("cosh", "sinh", "tan"), (_one(NUMBERS[:-1], rtol=1e-5),)),
    **dict.fromkeys(("acos", "asin", "atanh"), (_one(UNIT, rtol=3e-6),)),
    **dict.fromkeys(("abs", "sign"), (_one(NUMBERS), _one(WHOLE[:-1]))),
    "square": [_one(NUMBERS), _one(WHOLE)],
    "exp2": [_one(NUMBERS), _one(np.arange(9, dtype="int32"), expected=2 ** np.arange(9, dtype="int32"))],
    "inverse": [_one(NUMBERS), _one(NUMBERS, epsilon=0.0), _one(NUMBERS, epsilon=0.25)],
    # float16 rounds log's default epsilon, 1e-45, to 0, and so does float32 half of the time: log(0) in either
    "log": [_one(NUMBERS[1:3], half=False), _one(np.abs(NUMBERS[5:])), _one(NUMBERS, epsilon=1.0)],
    "rsqrt": [_one(NUMBERS, half=False), _one(NUMBERS, epsilon=0.5)],
    "clip": [_one(NUMBERS, alpha=-1.5, beta=2.0)],
    "threshold": [_one(NUMBERS, alpha=0.25), _one(WHOLE, alpha=np.int32(3))],
    "cast": [
        _one(np.array([0.0, -0.0, 2.9, -2.9, 0.5, -0.5], "float32"), dtype="int32"),
        *(_one(x, dtype=dtype) for x in (NUMBERS, WHOLE) for dtype in ("bool", "fp32")),
        *(_one(FIRST, dtype=dtype) for dtype in ("int32", "fp32")),
        _one(np.array([-1, 0, 255, 256, 300], "int32"), dtype="uint8"),
        _one(np.array([-129, 127, 128], "int32"), dtype="int8"),
    ],
    "select": [
        {"inputs": {"cond": ROW > 1, "a": COLUMN + ROW, "b": np.float32(-1.0)}},
        {"inputs": {"cond": np.isnan(NUMBERS), "a": np.zeros_like(NUMBERS), "b": NUMBERS}},
        {"inputs": {"cond": FIRST, "a": WHOLE[:4], "b": WHOLE[4:8]}},
        {"inputs": {"cond": FIRST, "a": SECOND, "b": FIRST}},
    ],
    "identity": [_one(NUMBERS), _one(WHOLE), _one(FIRST)],
}


def test_division_by_zero_of_integers_is_an_error_that_names_the_operator(mil):
    with pytest.raises(RuntimeError, match=r".") as caught:
        mil.run("floor_div", {"x": np.array([3], "int32"), "y": np.array([0], "int32")})
    assert caught.value.__notes__ == ["in the MIL operator floor_div 'result'"]


THREE_HALVES = {"x": np.array([3], "int32"), "y": np.array([2], "int32")}
REFUSED = [("real_div", THREE_HALVES, {}, "real_div 'result' divides integers, and MIL does not say")]


def test_quotients_of_integers_are_given_where_nothing_remains(mil):
    (result,) = mil.run("real_div", {"x": np.array([6, -4], "int32"), "y": np.array([3, 2], "int32")})
    assert (result.dtype, result.tolist()) == (np.int32, [2, -2])


def test_a_result_of_another_shape_than_the_program_declares_is_an_error(mil):
    # coremltools forgets the condition when it infers the shape: (4,) is declared, (3, 4) comes out.
    with pytest.raises(ValueError, match=r"declares \(4,\), it gives \(3, 4\)"):
        mil.run("select", {"cond": COLUMN > 0, "a": ROW, "b": -ROW})


def test_a_cast_to_float16_rounds_and_overflows(mil):
    (y,) = mil.run("cast", np.array([1 + 2.0**-11, 65519.0, 65520.0, 1e-8], "float32"), dtype="fp16")
    assert (y.dtype, y.tolist()) == (np.float16, [1.0, 65504.0, INF, 0.0])


def test_minus_zero_keeps_its_sign(mil):
    for kind in ("sin", "tanh", "atan", "floor", "ceil", "round", "sqrt", "identity", "asin"):
        assert np.signbit(mil.run(kind, np.array([-0.0], "float32"))[0][0]), kind


def test_strict_arithmetic_is_numpys_float16(mil):
    x, y = np.random.default_rng(0).normal(size=(2, 4096)).astype(np.float16)
    for kind, function in {"add": np.add, "mul": np.multiply, "sub": np.subtract, "real_div": np.divide}.items():
        np.testing.assert_array_equal(mil.run(kind, {"x": x, "y": y}, arithmetic=STRICT)[0], function(x, y))
