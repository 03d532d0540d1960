"""Single operators of a MIL program in float64, against NumPy."""

import numpy as np
import pytest

from kokoro_nb.backends import BACKENDS
from kokoro_nb.locate.precision.float64 import exact

REASON = BACKENDS["coreml"].available()
pytestmark = pytest.mark.skipif(REASON is not None, reason=str(REASON))
RANDOM = np.random.default_rng(0)
X, Y = RANDOM.normal(size=(2, 3)).astype("float16"), RANDOM.normal(size=(2, 3)).astype("float16")
WEIGHT = RANDOM.normal(size=(4, 3)).astype("float32")


@pytest.fixture(scope="module")
def operation():
    """Return the operators of one small program by their names."""
    import coremltools as ct
    from coremltools.converters.mil import Builder as mb

    @mb.program(input_specs=[mb.TensorSpec((2, 3)), mb.TensorSpec((2, 3))], opset_version=ct.target.iOS17)
    def program(x, y):
        linear = mb.linear(x=x, weight=WEIGHT, name="linear")
        joined = mb.concat(values=[x, y, np.ones((2, 1), "float32")], axis=1, name="joined")
        halves = mb.split(x=x, split_sizes=[1, 2], axis=1, name="halves")
        noise = mb.random_normal(shape=[2, 3], mean=0.0, stddev=1.0, seed=1, name="noise")
        whole = mb.cast(x=mb.greater(x=x, y=y, name="greater"), dtype="int32", name="whole")
        return linear, joined, *halves, noise, whole

    return {one.name: one for one in program.functions["main"].operations}


def _run(operation, **values):
    return exact(operation, values, 7)


def test_a_product_with_constant_weights_is_that_of_float64(operation):
    (result,) = _run(operation["linear"], x=X)
    assert result.dtype == np.float64
    np.testing.assert_allclose(result, X.astype(float) @ WEIGHT.astype(float).T, rtol=1e-14)


def test_lists_may_hold_constants_and_results_may_be_several(operation):
    (joined,) = _run(operation["joined"], values=[X, Y, None])
    np.testing.assert_array_equal(joined, np.concatenate([X, Y, np.ones((2, 1))], axis=1))
    first, second = _run(operation["halves"], x=X)
    np.testing.assert_array_equal(np.concatenate([first, second], axis=1), X)


def test_truth_values_and_integers_stay_what_they_are(operation):
    (greater,) = _run(operation["greater"], x=X, y=Y)
    np.testing.assert_array_equal(greater, X > Y)
    (whole,) = _run(operation["whole"], x=greater)
    assert whole.dtype == np.int32


def test_what_does_not_follow_from_the_inputs_is_not_computed(operation):
    assert _run(operation["noise"]) is None
    assert _run(operation["greater"], x=X) is None
