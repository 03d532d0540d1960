import numpy as np
import pytest

from kokoro_nb.traces.statistics import compare, describe, largest_error
from tests.refusals import refused


def test_finite_tensor_by_arithmetic():
    found = describe(np.array([[1.0, -3.0], [2.0, 0.0]], dtype=np.float32))
    assert (found.shape, found.dtype, found.finite, found.nan, found.inf) == ((2, 2), "float32", 1.0, 0, 0)
    assert (found.minimum, found.maximum, found.peak, found.mean) == (-3.0, 2.0, 3.0, 0.0)
    assert found.rms == pytest.approx(np.sqrt(14 / 4))  # 1 + 9 + 4 + 0 over 4
    assert (found.pattern, found.first_index) == ("all finite", None)


def _holed(shape, holes, dtype=np.float32):
    """Return ones, but for the values at some places."""
    values = np.ones(shape, dtype)
    for place, value in holes.items():
        values[place] = value
    return values


def _cases():
    holed = _holed((1, 4, 3), {(0, 1): np.nan, (0, 3, 2): np.inf}, np.float64)
    seen = {"channels_whole": (1,), "channels_partly": (3,), "nan": 3, "inf": 1, "first_index": (0, 1, 0)}
    pattern = "1 of 4 channels wholly non-finite, 1 of 4 channels partly non-finite"
    yield holed, {**seen, "finite": 8 / 12, "pattern": pattern}
    yield _holed(4, {1: np.nan}), {"channels_whole": (), "channels_partly": (), "pattern": "75 % finite"}
    seen = {"nan": 1, "inf": 2, "finite": 0.25, "minimum": 2.0, "maximum": 2.0, "peak": 2.0, "mean": 2.0}
    yield np.array([np.nan, np.inf, -np.inf, 2.0]), seen
    seen = {"dtype": "complex64", "nan": 0, "inf": 1, "finite": 7 / 8, "minimum": -4.0, "maximum": 3.0}
    seen |= {"channels_partly": (1,), "first_index": (0, 1), "rms": pytest.approx(np.sqrt((9 + 16 + 1) / 7))}
    yield np.array([[3 - 4j, complex(0, np.inf)], [1j, 0]], np.complex64), seen
    yield np.array(np.inf, np.float32), {"shape": (), "inf": 1, "pattern": "wholly non-finite", "first_index": ()}
    nothing = dict.fromkeys(("minimum", "maximum", "mean", "rms", "peak"), pytest.approx(np.nan, nan_ok=True))
    yield np.full((2, 3), np.nan), {"finite": 0, "pattern": "wholly non-finite", **nothing}
    nothing |= {"finite": pytest.approx(np.nan, nan_ok=True), "nan": 0, "inf": 0, "first_index": None}
    for shape in ((0,), (1, 3, 0)):
        yield np.zeros(shape), {"shape": shape, "pattern": "empty", **nothing}
    yield _holed(2, {0: -655.04}, np.float16), {"margin": pytest.approx(20 * np.log10(65504 / 655))}  # 655.0 in float16
    yield np.array([65504.0], np.float16), {"margin": 0}
    yield np.zeros(3, np.float32), {"margin": np.inf}
    for bad in (np.array([1, 2]), np.array([np.nan])):
        yield bad, {"margin": pytest.approx(np.nan, nan_ok=True)}


@pytest.mark.parametrize(("values", "expected"), [*_cases()])
def test_what_a_tensor_holds(values, expected):
    found = describe(values)
    assert {name: getattr(found, name) for name in expected} == expected


@pytest.mark.parametrize(("dtype", "holes"), [("float16", 500), ("float32", 1), ("float64", 0), ("uint8", 0)])
def test_agrees_with_the_plain_computation(dtype, holes):
    generator = np.random.default_rng(0)
    values = (50 + 20 * generator.standard_normal((70, 3, 1000))).clip(0, 200).astype(dtype).transpose(2, 1, 0)
    for index in generator.integers(0, values.size, holes):
        values[np.unravel_index(index, values.shape)] = generator.choice([np.nan, np.inf, -np.inf])
    found = describe(values)
    assert not values.flags.c_contiguous
    sound = values[np.isfinite(values)].astype(np.float64)
    plain = (sound.min(), sound.max(), sound.mean(), np.sqrt(np.mean(sound**2)))
    # sums of 2e5 terms in another order: 2e5 * 1e-16, and a factor of 100
    np.testing.assert_allclose((found.minimum, found.maximum, found.mean, found.rms), plain, rtol=1e-10)
    assert (found.nan, found.inf) == (np.isnan(values).sum(), np.isinf(values).sum())
    assert found.finite == np.isfinite(values).mean()
    finite = np.isfinite(values).all(axis=(0, 2))
    assert (found.channels_whole, found.channels_partly) == ((), tuple(np.flatnonzero(~finite)))
    first = np.unravel_index(np.argmin(np.isfinite(values)), values.shape)
    assert found.first_index == (first if holes else None)


@pytest.mark.parametrize("size", [1e200, 1e-200, 1.7e308, 5e-324, np.float16(60_000)])
def test_squares_leave_neither_end_of_the_range(size):
    found = describe(np.full((3, 1000), -size))
    assert (found.rms, -found.mean) == pytest.approx((size, size), rel=1e-12, abs=0)


def test_a_block_without_a_finite_element_counts_for_nothing():
    numbers = np.full(2 * 65536 + 10, -3.0)
    numbers[:65536], numbers[-20], numbers[-10:] = np.nan, -np.inf, -2.0
    found = describe(numbers)
    assert (found.nan, found.inf, found.minimum, found.maximum) == (65536, 1, -3.0, -2.0)
    assert found.mean == pytest.approx(-(3 * 65535 + 2 * 10) / 65545, rel=1e-12)
    assert found.first_index == (0,)


def test_identity():
    found = compare(np.arange(5.0), np.arange(5.0))
    seen = (found.finite, found.max_error, found.of_peak, found.snr_db, found.correlation)
    assert seen == (1, 0, 0, np.inf, pytest.approx(1))


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
    assert not found.max_error <= 1e9
    assert not found.of_peak <= 1e9
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
    refused("cut both", compare, a, b[:1])
    refused("without elements", compare, [], [])


def test_the_largest_error_is_of_all_outputs():
    one = {"a": np.ones(2), "b": np.full(2, 4.0)}
    assert largest_error(one, {"a": np.ones(2), "b": np.array([4.0, 5.0])}) == 0.25
    assert np.isnan(largest_error(one, {"a": np.array([1.0, np.nan]), "b": one["b"]}))
