import numpy as np
import pytest

from kokoro_nb.numerics.statistics import describe


def test_finite_tensor_by_arithmetic():
    found = describe(np.array([[1.0, -3.0], [2.0, 0.0]], dtype=np.float32))
    assert (found.shape, found.dtype, found.finite, found.nan, found.inf) == ((2, 2), "float32", 1.0, 0, 0)
    assert (found.minimum, found.maximum, found.peak) == (-3.0, 2.0, 3.0)
    assert found.mean == 0.0
    assert found.rms == pytest.approx(np.sqrt(14 / 4))  # 1 + 9 + 4 + 0 over 4
    assert (found.pattern, found.first_index) == ("all finite", None)


def test_channels_that_are_wholly_and_partly_non_finite():
    values = np.ones((1, 4, 3))
    values[0, 1] = np.nan
    values[0, 3, 2] = np.inf
    found = describe(values)
    assert (found.channels_whole, found.channels_partly) == ((1,), (3,))
    assert (found.nan, found.inf, found.first_index) == (3, 1, (0, 1, 0))
    assert found.finite == 8 / 12
    assert found.pattern == "1 of 4 channels wholly non-finite, 1 of 4 channels partly non-finite"


def test_nothing_finite_leaves_nothing_to_measure():
    found = describe(np.full((2, 3), np.nan))
    assert found.finite == 0
    assert found.pattern == "wholly non-finite"
    assert np.isnan([found.minimum, found.maximum, found.mean, found.rms, found.peak]).all()


def test_a_vector_has_no_channels():
    found = describe(np.array([1.0, np.nan, 2.0, 3.0]))
    assert (found.channels_whole, found.channels_partly, found.pattern) == ((), (), "75 % finite")


def test_an_empty_tensor_is_not_called_finite():
    found = describe(np.zeros((2, 0)))
    assert np.isnan(found.finite)
    assert found.pattern == "empty"


def test_integers_and_truth_values():
    assert describe(np.array([1, 2, 3])).mean == 2.0
    assert describe(np.array([True, False])).maximum == 1.0


def test_half_precision_is_accumulated_in_double():
    found = describe(np.full(100_000, 60_000, dtype=np.float16))
    assert found.rms == pytest.approx(60_000)  # its square is infinite in float16
