"""Random operators: seeds, ranges, and what has no seed."""

import warnings

import numpy as np
import pytest

from kokoro_nb.backends.mil.interpreter import Interpreter

SHAPE = {"shape": np.array([200, 50], "int32")}
CASES = {f"random_{name}": [] for name in ("uniform", "normal", "bernoulli", "categorical")}


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
    drawn = _drawn(mil, "random_bernoulli", SHAPE, prob=0.3, seed=7)
    assert set(np.unique(drawn)) == {0.0, 1.0}
    assert abs(drawn.mean() - 0.3) < 0.03


@pytest.mark.parametrize("mode", ["probs", "logits"])
def test_categories_have_their_probabilities(mil, mode):
    probabilities = np.array([[0.1, 0.2, 0.7], [0.0, 1.0, 0.0]], "float32")
    with np.errstate(divide="ignore"):
        x = probabilities if mode == "probs" else np.log(probabilities)
    drawn = _drawn(mil, "random_categorical", {"x": x}, mode=mode, size=4000, seed=7)
    assert (drawn.shape, drawn.dtype) == ((2, 4000), np.float32)
    shares = [[(row == k).mean() for k in range(3)] for row in drawn]
    np.testing.assert_allclose(shares, probabilities, atol=0.03)


@pytest.mark.parametrize("kind", ["random_uniform", "random_normal", "random_bernoulli"])
def test_a_seed_gives_the_same_numbers_in_every_call_and_another_seed_others(mil, kind):
    program, flat, _ = mil.build(kind, SHAPE, {"seed": 7})
    interpreter = Interpreter(program)
    first, second = interpreter.run(flat), interpreter.run(flat)
    np.testing.assert_array_equal(first["result"], second["result"])
    other = mil.run(kind, SHAPE, seed=8)[0]
    assert (other != first["result"]).any()
    assert interpreter.unseeded == ()


def test_what_has_no_seed_is_reported(mil):
    program, flat, _ = mil.build("random_normal", SHAPE, {})
    with pytest.warns(UserWarning, match=r"without a seed \(result\).*make the noise an input"):
        interpreter = Interpreter(program)
    assert interpreter.unseeded == ("result",)
    np.testing.assert_array_equal(interpreter.run(flat)["result"], interpreter.run(flat)["result"])
    with pytest.warns(UserWarning, match="without a seed"):
        other = Interpreter(program, seed=1)
    assert (other.run(flat)["result"] != interpreter.run(flat)["result"]).any()
