"""Execution: order, memory, observers, bad input; random numbers, control flow and states."""

import warnings
import weakref

import numpy as np
import pytest
import torch

from kokoro_nb.backends.mil.interpreter import Interpreter
from kokoro_nb.backends.mil.operators import OPERATORS
from kokoro_nb.backends.mil.rounding import FLOAT32, FLOAT64
from tests.refusals import refused

X = np.array([[1.0, -2.0, 3.0]], "float32")
PLACE = {"x": (1, 3)}


@pytest.fixture
def chain(mil, mb):
    return mil.program(PLACE, lambda x: _chain(mb, x))


def _chain(mb, x):
    doubled = mb.mul(x=x, y=2.0, name="doubled")
    shifted = mb.add(x=doubled, y=1.0, name="shifted")
    return [mb.exp(x=mb.sub(x=shifted, y=doubled, name="one"), name="e"), mb.identity(x=doubled, name="again")]


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


def test_a_value_is_freed_when_nothing_reads_it_any_more(mil, mb, monkeypatch):
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
    ],
)
def test_refuses_inputs_that_do_not_fit(chain, inputs, sentence):
    refused(sentence, Interpreter(chain).run, inputs)


def test_integers_of_any_width_are_taken_within_32_bits(mil, mb):
    interpreter = Interpreter(mil.program({"x": ((1, 3), "int32")}, lambda x: mb.add(x=x, y=1, name="more")))
    more = interpreter.run({"x": np.array([[1, 2, 3]], "int64")})["more"]
    assert (more.dtype, more.tolist()) == (np.int32, [[2, 3, 4]])
    refused("beyond its range", interpreter.run, {"x": np.array([[1, 2, 2**40]], "int64")})


def test_an_operator_that_cannot_be_executed_is_named(chain, monkeypatch):
    monkeypatch.delitem(OPERATORS, "exp")
    refused(r"operator 'e' is of type exp, which .* does not execute; convert the model", Interpreter, chain)


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


def test_a_result_is_stored_in_the_declared_dtype_and_of_another_kind_is_an_error():
    third = torch.tensor([1 / 3], dtype=torch.float64)
    assert FLOAT32.stored(third, torch.float16).item() == torch.tensor(1 / 3).half().item()
    assert FLOAT64.stored(third, torch.float16).item() == 1 / 3
    for value in (torch.ones(2), torch.ones(2, dtype=torch.bool)):
        with pytest.raises(TypeError, match=f"the file declares torch.int32, the operator gave {value.dtype}"):
            FLOAT32.stored(value, torch.int32)


SHAPE = {"shape": np.array([200, 50], "int32")}
CASES = {f"random_{name}": [] for name in ("uniform", "normal", "categorical")}


def _drawn(mil, kind, inputs, **attributes):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return mil.run(kind, inputs, **attributes)[0]


def test_numbers_have_their_range_mean_and_deviation(mil):
    drawn = _drawn(mil, "random_uniform", SHAPE, low=-2.0, high=3.0, seed=7)
    assert (drawn.shape, drawn.dtype) == ((200, 50), np.float32)
    assert -2 <= drawn.min() < -1.9
    assert 2.9 < drawn.max() < 3
    assert abs(drawn.mean() - 0.5) < 0.1  # 10 000 numbers of deviation 1.44: 0.014 expected
    drawn = _drawn(mil, "random_normal", SHAPE, mean=3.0, stddev=0.5, seed=7)
    np.testing.assert_allclose([drawn.mean(), drawn.std()], [3, 0.5], atol=0.03)


@pytest.mark.parametrize("mode", ["probs", "logits"])
def test_categories_have_their_probabilities(mil, mode):
    probabilities = np.array([[0.1, 0.2, 0.7], [0.0, 1.0, 0.0]], "float32")
    with np.errstate(divide="ignore"):
        x = probabilities if mode == "probs" else np.log(probabilities)
    drawn = _drawn(mil, "random_categorical", {"x": x}, mode=mode, size=4000, seed=7)
    assert (drawn.shape, drawn.dtype) == ((2, 4000), np.float32)
    shares = [[(row == k).mean() for k in range(3)] for row in drawn]
    np.testing.assert_allclose(shares, probabilities, atol=0.03)


@pytest.mark.parametrize("kind", ["random_uniform", "random_normal"])
def test_a_seed_gives_the_same_numbers_in_every_call_and_another_seed_others(mil, kind):
    program, flat, _ = mil.build(kind, SHAPE, {"seed": 7})
    interpreter = Interpreter(program)
    first, second = interpreter.run(flat), interpreter.run(flat)
    np.testing.assert_array_equal(first["result"], second["result"])
    assert (mil.run(kind, SHAPE, seed=8)[0] != first["result"]).any()
    assert interpreter.unseeded == ()


def test_what_has_no_seed_is_reported_and_draws_anew_in_each_call(mil):
    program, flat, _ = mil.build("random_normal", SHAPE, {})
    with pytest.warns(UserWarning, match=r"without a seed \(result\).*make the noise an input"):
        interpreter = Interpreter(program)
    assert interpreter.unseeded == ("result",)
    assert (interpreter.run(flat)["result"] != interpreter.run(flat)["result"]).any()


# Executed by the programs below, which a table of single operators cannot hold.
CASES |= dict.fromkeys(("cond", "while_loop", "read_state", "coreml_update_state", "make_list"), ())
CASES |= {f"list_{name}": () for name in ("length", "read", "write", "gather", "scatter")}


def _values(outputs):
    return [output.tolist() for output in outputs.values()]


def test_a_condition_runs_one_of_two_programs(mil, mb):
    def body(x):
        return mb.cond(
            pred=mb.greater(x=mb.reduce_sum(x=x, keep_dims=False), y=0.0),
            _true_fn=lambda: (mb.mul(x=x, y=2.0), mb.identity(x=x)),
            _false_fn=lambda: (mb.sub(x=0.0, y=x), mb.add(x=x, y=1.0)),
        )

    interpreter = Interpreter(mil.program({"x": (2,)}, body, "iOS18"))
    assert _values(interpreter.run({"x": np.array([1.0, 2.0], "float32")})) == [[2.0, 4.0], [1.0, 2.0]]
    assert _values(interpreter.run({"x": np.array([-1.0, -2.0], "float32")})) == [[1.0, 2.0], [0.0, -1.0]]


def test_a_loop_runs_on_its_own_results(mil, mb):
    def body(x):
        return mb.while_loop(
            _cond=lambda i, total: mb.less(x=i, y=5.0),
            _body=lambda i, total: (mb.add(x=i, y=1.0), mb.add(x=mb.mul(x=total, y=2.0), y=x)),
            loop_vars=(mb.identity(x=0.0), mb.identity(x=x)),
        )

    interpreter = Interpreter(mil.program({"x": (1,)}, body, "iOS18"))
    seen = []
    outputs = interpreter.run({"x": np.ones(1, "float32")}, observe=lambda kind, *_: seen.append(kind))
    assert _values(outputs) == [5.0, [63.0]]  # 2^6 - 1
    assert (seen.count("less"), seen.count("mul"), seen[-1]) == (6, 5, "while_loop")


def test_a_list_is_written_read_and_grows(mil, mb):
    def body(x):
        ls = mb.make_list(init_length=2, elem_shape=(2,), dynamic_length=True)
        both = mb.stack(values=[x, mb.mul(x=x, y=2.0)], axis=0)
        ls = mb.list_scatter(ls=ls, indices=np.array([1, 0], "int32"), value=both)
        grown = mb.list_write(ls=ls, index=3, value=mb.mul(x=x, y=3.0))
        read, gathered = mb.list_read(ls=ls, index=0), mb.list_gather(ls=grown, indices=np.array([3, 1], "int32"))
        return read, gathered, mb.list_length(ls=grown), mb.list_length(ls=ls)

    interpreter = Interpreter(mil.program({"x": (2,)}, body, "iOS18"))
    outputs = _values(interpreter.run({"x": np.array([1.0, 2.0], "float32")}))
    assert outputs == [[2.0, 4.0], [[3.0, 6.0], [1.0, 2.0]], 4, 2]


@pytest.mark.parametrize("arithmetic", [FLOAT32, FLOAT64])
def test_a_state_begins_as_zeros_in_every_run(mil, mb, arithmetic):
    def body(x, state):
        total = mb.add(x=mb.read_state(input=state), y=x)
        return mb.mul(x=mb.coreml_update_state(state=state, value=total), y=1.0)

    interpreter = Interpreter(mil.program({"x": (2,), "state": (2,)}, body, "iOS18"), arithmetic)
    assert (interpreter.states, interpreter.inputs) == (("state",), ("x",))
    for _ in range(2):
        assert _values(interpreter.run({"x": np.array([1.0, 2.0], "float32")})) == [[1.0, 2.0]]
