import numpy as np
import pytest

from kokoro_nb.errors import InputError
from kokoro_nb.traces.statistics import compare, largest_error


def test_identity():
    found = compare(np.arange(5.0), np.arange(5.0))
    assert (found.finite, found.max_error, found.of_peak, found.snr_db) == (1.0, 0.0, 0.0, float("inf"))
    assert found.correlation == pytest.approx(1.0)


def test_arithmetic():
    found = compare([3.0, -4.0], [3.0, -3.5])
    assert (found.peak, found.max_error, found.of_peak) == (4.0, 0.5, 0.125)
    assert found.snr_db == pytest.approx(20.0)  # 10 log10(25 / 0.25)


def test_correlation_is_pearsons():
    a, b = np.random.default_rng(0).standard_normal((2, 100))
    assert compare(a, b).correlation == pytest.approx(np.corrcoef(a, b)[0, 1])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_never_looks_good(bad):
    found = compare([1.0, 2.0, 3.0, 4.0], [1.0, bad, 3.0, 4.0])
    assert found.finite == 0.75
    for value in (found.max_error, found.of_peak):
        assert not value <= 1e9
    assert not found.snr_db > 0
    assert np.isnan(found.correlation)


def test_nan_on_both_sides_is_no_agreement():
    assert np.isnan(compare([np.nan, 1.0], [np.nan, 1.0]).max_error)


def test_silence():
    assert compare(np.zeros(3), np.zeros(3)).of_peak == 0
    assert compare(np.zeros(3), np.ones(3)).of_peak == float("inf")
    assert compare(np.zeros(3), np.ones(3)).snr_db == -float("inf")
    assert np.isnan(compare(np.zeros(3), np.ones(3)).correlation)


def test_shape_does_not_matter_and_must_agree():
    a, b = np.random.default_rng(0).standard_normal((2, 2, 3, 4))
    assert compare(a, b) == compare(a.ravel(), b.ravel())
    with pytest.raises(InputError, match="cut both"):
        compare(a, b[:1])
    with pytest.raises(InputError, match="without elements"):
        compare([], [])


def test_the_largest_error_is_of_all_outputs():
    one = {"a": np.ones(2), "b": np.full(2, 4.0)}
    assert largest_error(one, {"a": np.ones(2), "b": np.array([4.0, 5.0])}) == 0.25
    assert np.isnan(largest_error(one, {"a": np.array([1.0, np.nan]), "b": one["b"]}))
