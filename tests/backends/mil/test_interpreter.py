"""Execution: order, memory, observers, and bad input."""

import weakref

import numpy as np
import pytest
import torch

from kokoro_nb.backends.mil.interpreter import Interpreter
from kokoro_nb.backends.mil.rounding import FLOAT32, FLOAT64
from kokoro_nb.errors import InputError

X = np.array([[1.0, -2.0, 3.0]], "float32")
PLACE = {"x": (1, 3)}


@pytest.fixture
def chain(mil, mb):
    return mil.program(PLACE, lambda x: _chain(mb, x))


def _chain(mb, x):
    doubled = mb.mul(x=x, y=2.0, name="doubled")
    shifted = mb.add(x=doubled, y=1.0, name="shifted")
    return [mb.exp(x=mb.sub(x=shifted, y=doubled, name="one"), name="e"), mb.identity(x=doubled, name="again")]


def test_names_and_outputs_in_order(chain):
    interpreter = Interpreter(chain)
    assert (interpreter.inputs, interpreter.outputs, interpreter.states) == (("x",), ("e", "again"), ())
    outputs = interpreter.run({"x": X})
    assert list(outputs) == ["e", "again"]
    np.testing.assert_allclose(outputs["e"], np.full((1, 3), np.e), rtol=1e-6)
    np.testing.assert_array_equal(outputs["again"], 2 * X)


def test_an_observer_sees_every_operator_in_order_with_its_values(chain):
    seen = []
    Interpreter(chain).run({"x": X}, observe=lambda *seen_now: seen.append(seen_now))
    order = "mul doubled, add shifted, sub one, exp e, identity again"
    assert ", ".join(f"{kind} {name}" for kind, name, _, _ in seen) == order
    _, _, inputs, outputs = seen[1]
    np.testing.assert_array_equal(inputs["x"], 2 * X)
    assert float(inputs["y"]) == 1.0
    np.testing.assert_array_equal(outputs["shifted"], 2 * X + 1)
    with pytest.raises(ValueError, match="read-only"):
        outputs["shifted"][0] = 0


@pytest.mark.parametrize(("arithmetic", "dtype"), [(FLOAT32, "float16"), (FLOAT64, "float64")])
def test_an_observer_sees_values_as_they_are_stored(mil, mb, arithmetic, dtype):
    seen = {}
    interpreter = Interpreter(mil.program({"x": ((1, 3), "fp16")}, lambda x: mb.exp(x=x, name="e")), arithmetic)
    given = {"x": X.astype("float16")}
    interpreter.run(given, observe=lambda kind, name, inputs, outputs: seen.update(inputs, **outputs))
    assert {value.dtype.name for value in seen.values()} == {dtype}


def test_a_value_is_freed_when_nothing_reads_it_any_more(mil, mb, monkeypatch):
    from kokoro_nb.backends.mil.operators import OPERATORS

    alive, counts = weakref.WeakSet(), []

    def tracked(site, x, y):
        result = torch.add(x, y)
        alive.add(result)
        counts.append(len(alive))
        return result

    monkeypatch.setitem(OPERATORS, "add", tracked)

    def body(x):
        for _ in range(10):
            x = mb.add(x=x, y=1.0)
        return x

    Interpreter(mil.program(PLACE, body)).run({"x": X})
    assert max(counts) <= 3  # what it reads, what it makes, and what the call before still holds
    assert len(counts) == 10


@pytest.mark.parametrize(
    ("inputs", "sentence"),
    [
        ({"y": X}, "no input 'y'; the program takes x"),
        ({}, "Input 'x' is missing; the program takes x"),
        ({"x": X[:, :2]}, r"shape \(1, 2\), but the program takes \(1, 3\)"),
        ({"x": X.astype("float64")}, "is torch.float64 .* takes torch.float32; convert it"),
        ({"x": X.astype("int32")}, "is torch.int32"),
    ],
)
def test_refuses_inputs_that_do_not_fit(chain, inputs, sentence):
    with pytest.raises(InputError, match=sentence):
        Interpreter(chain).run(inputs)


def test_integers_of_any_width_are_taken_within_32_bits(mil, mb):
    interpreter = Interpreter(mil.program({"x": ((1, 3), "int32")}, lambda x: mb.add(x=x, y=1, name="more")))
    more = interpreter.run({"x": np.array([[1, 2, 3]], "int64")})["more"]
    assert (more.dtype, more.tolist()) == (np.int32, [[2, 3, 4]])
    with pytest.raises(InputError, match="beyond its range"):
        interpreter.run({"x": np.array([[1, 2, 2**40]], "int64")})


def test_an_operator_that_cannot_be_executed_is_named(chain, monkeypatch):
    from kokoro_nb.backends.mil.operators import OPERATORS

    monkeypatch.delitem(OPERATORS, "exp")
    with pytest.raises(InputError, match=r"operator 'e' is of type exp, which .* does not execute; convert the model"):
        Interpreter(chain)


@pytest.fixture(scope="module")
def several(mil, mb):
    """Return an interpreter in float64, and its operations by their names."""

    def body(x):
        linear = mb.linear(x=x, weight=WEIGHT, name="linear")
        joined = mb.concat(values=[x, linear, np.ones((1, 2), "float32")], axis=1, name="joined")
        halves = mb.split(x=x, split_sizes=[1, 2], axis=1, name="halves")
        noise = mb.random_normal(shape=[1, 3], mean=0.0, stddev=1.0, seed=1, name="noise")
        whole = mb.cast(x=mb.greater(x=x, y=noise, name="greater"), dtype="int32", name="whole")
        return [joined, *halves, whole]

    program = mil.program(PLACE, body)
    return Interpreter(program, FLOAT64), {one.name: one for one in program.functions["main"].operations}


WEIGHT = np.random.default_rng(0).normal(size=(4, 3)).astype("float32")
HALF = X.astype("float16")


def test_one_operation_alone_is_that_of_float64_on_any_values(several):
    interpreter, operations = several
    (product,) = interpreter.alone(operations["linear"], {"x": HALF})
    assert product.dtype == np.float64
    np.testing.assert_allclose(product, HALF.astype(float) @ WEIGHT.astype(float).T, rtol=1e-14)
    (joined,) = interpreter.alone(operations["joined"], {"values": [HALF, WEIGHT[:1], None]})
    np.testing.assert_array_equal(joined, np.concatenate([HALF, WEIGHT[:1], np.ones((1, 2))], axis=1))
    np.testing.assert_array_equal(np.concatenate(interpreter.alone(operations["halves"], {"x": HALF}), axis=1), HALF)
    (greater,) = interpreter.alone(operations["greater"], {"x": HALF, "y": 0 * HALF})
    np.testing.assert_array_equal(greater, HALF > 0)
    assert interpreter.alone(operations["whole"], {"x": greater})[0].dtype == np.int32


def test_what_does_not_follow_from_the_inputs_is_not_computed_alone(several):
    interpreter, operations = several
    assert interpreter.alone(operations["noise"], {}) is None
    assert interpreter.alone(operations["greater"], {"x": HALF}) is None
