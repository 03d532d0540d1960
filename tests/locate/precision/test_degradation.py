"""What a row of the precision lens says, on rows made by hand."""

import numpy as np
import pytest

from kokoro_nb.locate.precision.degradation import Lens, OperatorPrecision, step, worst
from kokoro_nb.traces.parity import Parity


def _row(name="y", error=0.0, floor=2.0**-24, peak=1.0, **other):
    fields = {"value": name, "type": "mul", "dtype": "float16", "shape": (1,)}
    fields |= {"local": error, "inherited": 0.0, "finite": 1.0}
    return OperatorPrecision(name=name, peak=peak, floor=floor, error=error, **{**fields, **other})


@pytest.mark.parametrize(
    ("floor", "error", "verdict", "cause"),
    [
        (2.0**-24, 2.0**-11, "pass", ""),  # one rounding in each precision
        (0.0, 8 * 2.0**-11, "pass", ""),  # the limit itself, where float32 is exact
        (0.0, 9 * 2.0**-11, "fail", "rounding"),
        (2.0**-22, 2.0**-7, "pass", ""),  # float32 is off by 4 roundings, so float16 may be off by 32
        (2.0**-16, 2.0**-4, "pass", ""),  # the forecast is 2^-3, the limit never above 2^-4
        (2.0**-16, 0.07, "fail", "conditioning"),
        (2.0**-5, 0.07, "fail", "conditioning"),
        (0.1, 0.07, "unknown", ""),  # float32 itself has lost the value
        (0.1, 0.06, "pass", ""),
        (2.0**-24, np.nan, "fail", "rounding"),
    ],
)
def test_a_result_has_left_the_noise_where_its_error_is_above_what_rounding_makes(floor, error, verdict, cause):
    row = _row(floor=floor, error=error)
    assert (row.verdict, row.cause) == (verdict, cause)


def test_what_is_not_finite_or_beyond_65504_failed_for_its_range():
    assert _row(error=np.inf, finite=0.5).cause == "range"
    assert _row(error=0.1, peak=7e4).cause == "range"
    assert _row(error=0.0, peak=7e4, dtype="float32").cause == ""
    assert _row(error=0.0, comparable=False).verdict == "unknown", "without a finite reference nothing is known"


def test_the_margin_is_the_ratio_to_the_largest_number():
    assert _row(peak=6550.4).margin_db == pytest.approx(20)
    assert _row(peak=65504.0).margin_db == 0
    assert _row(peak=131008.0).margin_db == pytest.approx(-6.0206)
    assert _row(peak=0.0).margin_db == np.inf


@pytest.mark.parametrize(("phase", "distance"), [(3.0, 2**-9), (1000.0, 0.5), (4096.0, 4.0), (65504.0, 32.0)])
def test_the_step_of_a_phase_is_the_distance_of_two_float16_numbers(phase, distance):
    assert step(phase) == distance
    below = float(np.nextafter(np.float16(phase), np.float16(0)))
    assert phase - below == (distance / 2 if np.log2(phase).is_integer() else distance)  # it halves below 2^n
    assert _row(phase=phase).phase_step == distance
    assert _row().phase_step is None


def test_the_lens_names_the_first_result_that_fails_and_where_trouble_begins():
    rows = (
        _row("a"),
        _row("b", error=0.5, reads=("a",), phase=4000.0),
        _row("c", error=0.5, reads=("b",)),
        _row("d", error=0.5, floor=0.5, reads=("x",), phase=5000.0),
        _row("e", error=np.inf, finite=0.0, peak=1e5, reads=("a",)),
    )
    seen = Lens(rows, {"y": Parity(1.0, 1.0, 0.1, 1.0, 1.0), "z": Parity(0.5, 1.0, np.nan, np.nan, np.nan)})
    assert seen.first is rows[1]
    assert [row.name for row in seen.sources] == ["b", "d", "e"]
    assert [row.name for row in seen.phases] == ["d", "b"]
    assert np.isnan(seen.worst.of_peak)
    assert Lens((_row(),), {}).first is None


@pytest.mark.parametrize("errors", [(0.1, 0.3, 0.2), (0.3, np.inf), (np.inf, np.nan, 0.1), (np.nan, np.inf)])
def test_nan_is_the_worst_then_infinity(errors):
    found = worst([Parity(1.0, 1.0, error, 0.0, 0.0) for error in errors]).of_peak
    expected = np.nan if any(map(np.isnan, errors)) else max(errors)
    np.testing.assert_equal(found, expected)
