"""Operators on single elements, at the edges of their ranges too."""

import numpy as np
import pytest
import torch

from kokoro_nb.errors import InputError

NAN, INF = np.nan, np.inf
EDGES = np.array([NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, -1.5, 2.5, -2.5, 0.3, -7.25, 11.0], "float32")
PAIRS = [a.ravel() for a in np.meshgrid(EDGES, EDGES)]
WHOLE = np.array([-7, -6, -1, 0, 1, 5, 7, 2**31 - 1, -(2**31)], "int32")
DIVISORS = np.array([-7, -3, -2, -1, 1, 2, 3, 7, 2**31 - 1], "int32")
DIVIDED = [a.ravel() for a in np.meshgrid(WHOLE[:-1], DIVISORS)]
TRUTHS = [a.ravel() for a in np.meshgrid([True, False], [True, False])]
COLUMN, ROW = np.linspace(-2, 2, 3, dtype="float32").reshape(3, 1), np.linspace(0.5, 3, 4, dtype="float32")
UNIT = np.array([NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 0.5, -0.25, 0.99, 1.5], "float32")


def _pair(x, y, **more):
    return {"inputs": {"x": x, "y": y}, **more}


def _one(x, **more):
    return {"inputs": {"x": x}, **more}


def _arithmetic(*more, half=True):
    return [_pair(*PAIRS, half=half), _pair(COLUMN, ROW), _pair(COLUMN, np.float32(1.25)), *more]


def _comparison():
    return [_pair(*PAIRS), _pair(WHOLE, WHOLE[::-1].copy()), _pair(COLUMN, ROW)]


CASES = {
    "add": _arithmetic(_pair(WHOLE, WHOLE[::-1].copy())),
    "sub": _arithmetic(_pair(WHOLE, WHOLE[::-1].copy())),
    "mul": _arithmetic(_pair(WHOLE, WHOLE[::-1].copy())),
    "real_div": _arithmetic(),
    "maximum": _arithmetic(_pair(WHOLE, WHOLE[::-1].copy())),
    "minimum": _arithmetic(_pair(WHOLE, WHOLE[::-1].copy())),
    "floor_div": _arithmetic(_pair(*DIVIDED)),
    "mod": _arithmetic(_pair(*DIVIDED)),
    "pow": [
        _pair(*PAIRS, half=False),  # 11 to the power of 11 is beyond float16
        _pair(np.abs(COLUMN), ROW),
        _pair(np.arange(-3, 4, dtype="int32"), np.int32(3)),
    ],
    **{name: _comparison() for name in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")},
    **{name: [_pair(*TRUTHS)] for name in ("logical_and", "logical_or", "logical_xor")},
    "logical_not": [_one(TRUTHS[0])],
    **{name: [_one(EDGES)] for name in ("atan", "ceil", "cos", "erf", "exp", "floor", "round", "sin", "tanh")},
    # the tangent is steep near its poles: 11 is one, and so rounds worse than the rest
    **{name: [_one(EDGES[:-1], rtol=1e-5)] for name in ("cosh", "sinh", "tan")},
    **{name: [_one(UNIT, rtol=3e-6)] for name in ("acos", "asin", "atanh")},
    **{name: [_one(EDGES), _one(WHOLE[:-1])] for name in ("abs", "sign")},
    "square": [_one(EDGES), _one(WHOLE)],
    "sqrt": [_one(EDGES)],
    "exp2": [_one(EDGES), _one(np.arange(9, dtype="int32"), expected=2 ** np.arange(9, dtype="int32"))],
    "inverse": [
        _one(EDGES),
        _one(EDGES, attributes={"epsilon": np.float32(0.0)}),
        _one(EDGES, attributes={"epsilon": np.float32(0.25)}),
    ],
    # float16 rounds log's default epsilon, 1e-45, to 0, and so does float32 half of the time: log(0) in either
    "log": [
        _one(EDGES[1:3], half=False),
        _one(np.abs(EDGES[5:])),
        _one(EDGES, attributes={"epsilon": np.float32(1.0)}),
    ],
    "rsqrt": [_one(EDGES, half=False), _one(EDGES, attributes={"epsilon": np.float32(0.5)})],
    "clip": [_one(EDGES, attributes={"alpha": np.float32(-1.5), "beta": np.float32(2.0)})],
    "threshold": [_one(EDGES, attributes={"alpha": np.float32(0.25)}), _one(WHOLE, attributes={"alpha": np.int32(3)})],
    "cast": [
        _one(np.array([0.0, -0.0, 2.9, -2.9, 0.5, -0.5], "float32"), attributes={"dtype": "int32"}),
        _one(EDGES, attributes={"dtype": "bool"}),
        _one(EDGES, attributes={"dtype": "fp32"}),
        _one(WHOLE, attributes={"dtype": "fp32"}),
        _one(WHOLE, attributes={"dtype": "bool"}),
        _one(TRUTHS[0], attributes={"dtype": "int32"}),
        _one(TRUTHS[0], attributes={"dtype": "fp32"}),
        _one(np.array([-1, 0, 255, 256, 300], "int32"), attributes={"dtype": "uint8"}),
        _one(np.array([-129, 127, 128], "int32"), attributes={"dtype": "int8"}),
    ],
    "select": [
        {"inputs": {"cond": ROW > 1, "a": COLUMN + ROW, "b": np.float32(-1.0)}},
        {"inputs": {"cond": np.isnan(EDGES), "a": np.zeros_like(EDGES), "b": EDGES}},
        {"inputs": {"cond": TRUTHS[0], "a": WHOLE[:4], "b": WHOLE[4:8]}},
        {"inputs": {"cond": TRUTHS[0], "a": TRUTHS[1], "b": TRUTHS[0]}},
    ],
    "identity": [_one(EDGES), _one(WHOLE), _one(TRUTHS[0])],
}


def test_operator(mil, kind, case):
    mil.check(kind, case)


def test_division_by_zero_of_integers_is_an_error_that_names_the_operator(mil):
    with pytest.raises(RuntimeError, match=r".") as caught:
        mil.run("floor_div", {"x": np.array([3], "int32"), "y": np.array([0], "int32")}, {})
    assert caught.value.__notes__ == ["in the MIL operator floor_div 'result'"]


def test_quotients_of_integers_are_refused(mil):
    with pytest.raises(InputError, match=r"real_div 'result' divides integers, and MIL does not say"):
        mil.run("real_div", {"x": np.array([3], "int32"), "y": np.array([2], "int32")}, {})


def test_a_result_of_another_shape_than_the_program_declares_is_an_error(mil):
    # coremltools forgets the condition when it infers the shape: (4,) is declared, (3, 4) comes out.
    with pytest.raises(ValueError, match=r"declares \(4,\), it gives \(3, 4\)"):
        mil.run("select", {"cond": COLUMN > 0, "a": ROW, "b": -ROW}, {})


def test_a_cast_to_float16_rounds_and_overflows(mil):
    x = np.array([1 + 2.0**-11, 65519.0, 65520.0, 1e-8], "float32")
    (y,) = mil.run("cast", {"x": x}, {"dtype": "fp16"})
    assert y.dtype == np.float16
    assert y.tolist() == [1.0, 65504.0, INF, 0.0]


def test_minus_zero_keeps_its_sign(mil):
    zero = np.array([-0.0], "float32")
    for kind in ("sin", "tanh", "atan", "floor", "ceil", "round", "sqrt", "identity", "asin"):
        assert np.signbit(mil.run(kind, {"x": zero}, {})[0][0]), kind


def test_strict_arithmetic_is_numpys_float16(mil):
    from kokoro_nb.backends.mil.rounding import STRICT

    x, y = np.random.default_rng(0).normal(size=(2, 4096)).astype(np.float16)
    for kind, function in {"add": np.add, "mul": np.multiply, "sub": np.subtract, "real_div": np.divide}.items():
        np.testing.assert_array_equal(mil.run(kind, {"x": x, "y": y}, {}, arithmetic=STRICT)[0], function(x, y))


def test_a_wrong_operator_is_caught(mil, monkeypatch):
    from kokoro_nb.backends.mil.operators import OPERATORS

    case = CASES["floor"][0]
    mil.check("floor", case)
    monkeypatch.setitem(OPERATORS, "floor", lambda site, x: torch.trunc(x))
    with pytest.raises(AssertionError):
        mil.check("floor", case)
    monkeypatch.setitem(OPERATORS, "floor", lambda site, x: torch.nan_to_num(torch.floor(x)))
    with pytest.raises(AssertionError):
        mil.check("floor", case)
    monkeypatch.setitem(OPERATORS, "floor", lambda site, x: torch.floor(x).unsqueeze(0))
    with pytest.raises(ValueError, match="declares"):
        mil.check("floor", case)
