"""The traps that the metrics of other tools fall into: each formula is shown to fail, and ours not to.

| tool | what its metric does | test |
|---|---|---|
| ExecuTorch Inspector | NaN is made 0 | test_nan_is_not_made_zero |
| ExecuTorch Inspector | infinity is made 1.8e308 only where a NaN is, too | test_infinity_is_not_made_a_large_number |
| ExecuTorch compare_results | mean square error in two digits | test_a_small_error_is_not_rounded_away |
| ExecuTorch compare_results | cosine in two digits, blind to scale | test_a_cosine_is_no_distance |
| ExecuTorch tap | the first min(len) elements | test_a_short_tensor_is_no_match |
| ai-edge-quantizer | NaN is made 1e-9 | test_nan_is_not_made_zero |
| ai-edge-quantizer | infinity is made 1e9 | test_infinity_is_not_made_a_large_number |
| ai-edge-quantizer | in place | test_no_array_is_changed |
| ai-edge-quantizer | a ratio called SNR | test_a_ratio_is_not_called_decibels |
| ai-edge-quantizer | the median of ratios | test_a_median_does_not_forgive_half |
| coremltools, AI Hub Models | 1e-5 above, 1e-10 below | test_a_silent_reference_is_not_forgiven |
| coremltools | divides by the first axis | test_shape_does_not_matter |
| AI Hub Models | epsilon in the place of the peak | test_no_epsilon_stands_where_the_peak_should |
| ORT's debugger | equal silence is 0 dB, equal sound 319 dB | test_tool_traps.test_what_is_equal_is_without_noise |
| ORT's debugger | an infinity raises or gives NaN | test_tool_traps.test_one_infinity_does_not_end_the_report |
| ORT's debugger | uint8 less its zero point wraps | test_tool_traps.test_unsigned_weights_do_not_wrap |
| ORT's debugger | KeyError without the float model | test_tool_traps.test_no_float_model_is_needed |
| ORT's debugger | pairs by endings of names | test_tool_traps.test_pairs_are_not_made_by_names |
| Neural Insights | each side scaled to 0 to 1 | test_scale_and_offset_matter |
| Neural Insights | operators with NaN vanish | test_tool_traps.test_a_node_of_nan_does_not_vanish |
| Neural Insights | the first item of the batch | test_every_item_of_a_batch_counts |
| AIMET | mean square error unscaled | test_width_does_not_matter |
| AIMET | output 0 alone | test_tool_traps.test_every_output_of_a_node_counts |
| PPQ | signal + 1e-7 | test_a_quiet_signal_is_not_drowned_in_an_epsilon |
| PPQ | 4096 drawn elements | test_one_bad_channel_is_seen_among_many |
| Polygraphy | wrong only beyond both tolerances | test_both_tolerances_are_not_needed |
| Polygraphy | 2e-16 added to a right value of 0 | test_nothing_is_near_where_zero_is_right |
| Polygraphy | validates no infinity unless asked | test_tool_traps.test_infinity_is_found_unasked |
| Polygraphy | means in float32 | test_squares_do_not_overflow |
| Polygraphy | the peak is the largest, not the largest size | test_the_peak_of_a_negative_signal_is_a_size |
| AutoCast | NaN is not above 512 | test_nan_is_never_below_a_threshold |
| AutoCast | and so goes to float16 | test_tool_traps.test_nan_is_never_foreseen_to_fit_into_float16 |
| AutoCast | borders alone | test_float16_foresight.test_an_overflow_inside_is_reported_apart_from_one_at_the_border |
| AutoCast | its result is never run | test_float16_mend.test_the_running_phase_stays_float32_by_itself |
| onnx-diagnostic | NaN is made 1e10 | test_equal_nans_are_equal_and_told_as_such |
| onnx-diagnostic | right + 1e-3 below | test_small_values_are_not_near_by_themselves |
| Olive's float16 | cut without a word | test_inspecting.test_a_constant_at_the_limit_of_a_converter_is_noted |
| ONNX Runtime's float16 | constants cut | test_float16_mend.test_constants_are_not_cut |
"""

import re
from pathlib import Path

import numpy as np
import pytest

from kokoro_nb.inspection.file_run import relative_noise
from kokoro_nb.inspection.node_judgement import compared
from kokoro_nb.inspection.rounding_limits import spacing
from kokoro_nb.inspection.whole_file import signal_to_noise
from kokoro_nb.traces.parity import relative_difference


def _compared(value, right, limit=1e-6):
    return compared("y", np.asarray(value, np.float32), np.asarray(right, np.float64), np.full(np.shape(right), limit))


def test_every_trap_of_the_table_has_its_test_and_every_test_its_trap():
    rows = re.findall(r"\| (?:(test_\w+)\.)?(test_\w+) \|$", __doc__, re.MULTILINE)
    assert len(rows) == len(__doc__.splitlines()) - 4
    here = {name for module, name in rows if not module}
    assert here == {name for name in globals() if name.startswith("test_")} - {
        "test_every_trap_of_the_table_has_its_test_and_every_test_its_trap"
    }
    for module, name in rows:
        if module:
            assert f"def {name}(" in Path(__file__).with_name(f"{module}.py").read_text(encoding="utf-8")


def test_nan_is_not_made_zero():
    """ExecuTorch's Inspector maps NaN to 0 first, ai-edge-quantizer to 1e-9: all NaN against zeros is perfect there."""
    bad, right = np.full(8, np.nan), np.zeros(8)
    assert np.mean((np.nan_to_num(bad) - right) ** 2) == 0
    assert np.mean((np.nan_to_num(bad, nan=1e-9) - right) ** 2) < 1e-17
    assert _compared(bad, right).is_wrong
    assert _compared(bad, right).finite == 0
    assert relative_difference(bad, right) == np.inf
    assert signal_to_noise(bad, right) is None


def test_infinity_is_not_made_a_large_number():
    """An infinity made 1e9 is a difference like others, and of the other sign the same; one that is right is none.

    ExecuTorch's Inspector cleans only what has a NaN in it: the same infinity is infinite or 1.8e308.
    """
    lone, beside = np.array([np.inf, 1.0]), np.array([np.inf, np.nan])
    cleaned = [np.nan_to_num(one) if np.isnan(one).any() else one for one in (lone, beside)]
    assert np.isinf(cleaned[0][0])
    assert cleaned[1][0] == np.finfo(np.float64).max
    assert np.nan_to_num(lone, posinf=1e9)[0] - np.float64(1e9) == 0  # a right 1e9, and an overflow
    assert _compared(lone, [1e9, 1]).is_wrong
    assert _compared([np.inf, 1], [1, 1]).is_wrong
    assert not _compared([np.inf, 1], [np.inf, 1]).is_wrong
    assert _compared([-np.inf, 1], [np.inf, 1]).is_wrong


def test_equal_nans_are_equal_and_told_as_such():
    """onnx-diagnostic puts 1e10 in place of NaN, so that its difference is 0 and nothing says that it was NaN."""
    bad = np.array([np.nan, 1.0])
    both = np.nan_to_num(bad, nan=1e10)
    assert np.max(np.abs(both - both)) == 0
    found = _compared(bad, bad)
    assert not found.is_wrong
    assert found.finite == found.right_finite == 0.5


def test_a_small_error_is_not_rounded_away():
    """ExecuTorch's compare_results rounds to two digits: a mean square error of 0.0049 is 0.00."""
    right = np.ones(4)
    value = right + 0.07
    assert round(float(np.mean((value - right) ** 2)), 2) == 0.0
    assert _compared(value, right).is_wrong


def test_a_short_tensor_is_no_match():
    """A tap that compares the first min(len) elements passes a tensor that was cut."""
    right = np.arange(8.0)
    value = right[:4]
    assert np.abs(value - right[: min(len(value), len(right))]).max() == 0
    assert relative_difference(value, right) == np.inf
    assert signal_to_noise(value, right) is None


def test_no_array_is_changed():
    """ai-edge-quantizer overwrites the caller's NaN in place."""
    value = np.array([np.nan, np.inf, 1.0], np.float32)
    before, theirs = value.copy(), value.copy()
    np.nan_to_num(theirs, copy=False, nan=1e-9, posinf=1e9)
    assert theirs.tobytes() != before.tobytes()
    _compared(value, [1, 1, 1])
    assert value.tobytes() == before.tobytes()


def test_a_silent_reference_is_not_forgiven():
    """Coremltools adds 1e-5 above and 1e-10 below: an output of 0 where 1e-5 is right scores 47 dB."""
    right, value = np.full(100, 1e-5), np.zeros(100)
    signal, noise = np.mean(right**2), np.mean((value - right) ** 2)
    assert 10 * np.log10((signal + 1e-5) / (noise + 1e-10)) > 40
    assert signal_to_noise(value, right) == 0.0  # dB: the noise is as loud as the signal
    assert signal_to_noise(np.full(4, 1e-9), np.zeros(4)) is None


def test_shape_does_not_matter():
    """Coremltools divides by the first axis alone: (2, 1000) gives 30 dB less than the same 2000 numbers flat."""
    right = np.random.default_rng(0).standard_normal((2, 1000))
    value = right + 0.1
    flat = signal_to_noise(value.reshape(-1), right.reshape(-1))
    assert signal_to_noise(value, right) == pytest.approx(flat, abs=1e-12)
    by_rows = np.sum((value - right) ** 2) / len(right)
    assert 10 * np.log10(by_rows / np.mean((value - right) ** 2)) > 29


def test_scale_and_offset_matter():
    """Neural Insights scales each side to 0 to 1 first: 1000 x + 5 equals x."""
    right = np.random.default_rng(0).standard_normal(50)
    value = 1000 * right + 5

    def scaled(x):
        return (x - x.min()) / (x.max() - x.min())

    assert np.mean((scaled(value) - scaled(right)) ** 2) < 1e-20
    assert relative_difference(value, right) > 100


def test_width_does_not_matter():
    """AIMET's unscaled mean square error makes a loud layer look worse than one that is wholly wrong."""
    loud, quiet = np.full(10, 1e4), np.full(10, 1e-3)
    assert np.mean((loud * 1.0001 - loud) ** 2) > np.mean((0 - quiet) ** 2)
    assert relative_difference(loud * 1.0001, loud) < relative_difference(0 * quiet, quiet)


def test_one_bad_channel_is_seen_among_many():
    """PPQ draws 4096 elements: of a tensor with 25 times as many, some bad elements are missed."""
    right = np.random.default_rng(0).standard_normal((1, 512, 200))
    value = right.copy()
    value[0, 137, :5] = 0
    drawn = np.random.default_rng(0).integers(0, right.size, 4096)
    assert np.abs(value.reshape(-1)[drawn] - right.reshape(-1)[drawn]).max() == 0
    value[0, 137] = 0
    found = _compared(value, right)
    assert found.is_wrong
    assert found.pattern == "1 of 512 channels wholly"
    assert found.worst[1] == 137


def test_both_tolerances_are_not_needed():
    """Polygraphy fails an element only if it is beyond the absolute and the relative tolerance."""
    right, value = np.array([1e-3]), np.array([1e-3 + 9e-6])
    absolute, relative = np.abs(value - right), np.abs(value - right) / np.abs(right)
    assert not ((absolute > 1e-5) & (relative > 1e-5)).any()
    assert _compared(value, right, limit=float(spacing(np.array(1e-3), np.dtype("float32")))).is_wrong


def test_nan_is_never_below_a_threshold():
    """AutoCast keeps float32 where the largest value is above 512, and NaN > 512 is false."""
    assert not (np.nan > 512)
    value = compared("y", np.array([np.nan], np.float16), np.array([1.0]), np.array([np.nan]))
    assert value.is_wrong


def test_a_cosine_is_no_distance():
    """ExecuTorch's compare_results also rounds the cosine: 5.7 degrees are 1.0, and so is any scale."""
    right = np.random.default_rng(0).standard_normal(1000)
    aside = np.roll(right, 1)
    for value in (3 * right, right + 0.08 * aside):
        cosine = value @ right / np.linalg.norm(value) / np.linalg.norm(right)
        assert round(float(cosine), 2) == 1.0
        assert relative_noise(value, right) > 0.05
        assert _compared(value, right).is_wrong


def test_a_ratio_is_not_called_decibels():
    """ai-edge-quantizer's SNR is a ratio of powers: 100 is 20 dB."""
    right = np.ones(10)
    value = right + 0.1
    assert np.square(right).sum() / np.square(value - right).sum() == pytest.approx(100)
    assert signal_to_noise(value, right) == pytest.approx(20)


def test_a_median_does_not_forgive_half():
    """ai-edge-quantizer's median ratio is 0 while 49 % of the elements are wrong altogether."""
    right = np.ones(100)
    value = right.copy()
    value[:49] = 1e6
    assert np.median(np.abs(value - right) / np.abs(right)) == 0
    found = _compared(value, right)
    assert (found.wrong, found.is_wrong) == (49, True)
    assert relative_noise(value, right) > 1e5


def test_no_epsilon_stands_where_the_peak_should():
    """AI Hub Models' `compare_psnr` hands its epsilon over as the peak: a perfect copy is at -100 dB, as noise is."""
    right = np.random.default_rng(0).standard_normal(1000)

    def theirs(value, peak=1e-10, eps=1e-5):
        return 20 * np.log10(peak / np.sqrt(np.square(value - right).mean() + eps**2))

    good, bad = right + 1e-5, right + 1.0
    assert theirs(good) < -95
    assert theirs(bad) < -95
    assert signal_to_noise(good, right) > 95
    assert signal_to_noise(bad, right) < 1


def test_every_item_of_a_batch_counts():
    """Neural Insights compares the first item."""
    right = np.random.default_rng(0).standard_normal((3, 4))
    value = right.copy()
    value[2, 1] += 1
    assert np.abs(value[0] - right[0]).max() == 0
    found = _compared(value, right)
    assert (found.is_wrong, found.worst) == (True, (2, 1))


def test_a_quiet_signal_is_not_drowned_in_an_epsilon():
    """PPQ divides by the power of the signal + 1e-7: what is wrong by its whole size at -80 dB counts as 9 %."""
    right = np.full(100, 1e-4)
    value = np.zeros(100)
    assert np.square(value - right).mean() / (np.square(right).mean() + 1e-7) < 0.1
    assert relative_noise(value, right) == pytest.approx(1)


def test_nothing_is_near_where_zero_is_right():
    """Polygraphy's relative error adds 2e-16 where 0 is right: 1e-21 passes 1e-5 there, though it is no zero."""
    right, value = np.zeros(3), np.array([0, 1e-21, 0])
    assert (np.abs(value - right) / (np.abs(right) + 2.2e-16) < 1e-5).all()
    assert relative_difference(value, right) == np.inf
    assert relative_noise(value, right) == np.inf


def test_squares_do_not_overflow():
    """A mean in the tensor's own type: of float32 the square of 1e20 is infinite, of float16 that of 300."""
    for dtype, size in ((np.float32, 1e20), (np.float16, 300)):
        right = np.full(10, size, dtype)
        value = (right * dtype(1.5)).astype(dtype)
        with np.errstate(over="ignore"):
            assert np.isinf(np.square(right).mean(dtype=dtype))
        assert relative_noise(value, right) == pytest.approx(0.5, rel=1e-2)
        assert signal_to_noise(value, right) == pytest.approx(6.02, abs=0.05)


def test_the_peak_of_a_negative_signal_is_a_size():
    """Polygraphy's PSNR takes the largest value: of a signal from -1 to -0.001 that is -0.001, 60 dB too little."""
    right = np.linspace(-1, -0.001, 100)
    value = right + 1e-3
    noise = np.sqrt(np.square(value - right).mean())
    assert 20 * np.log10(np.abs(right).max() / noise) - 20 * np.log10(np.abs(right.max()) / noise) == pytest.approx(60)
    assert _compared(value, right).peak == pytest.approx(1)
    assert relative_difference(value, right) == pytest.approx(1e-3)


def test_small_values_are_not_near_by_themselves():
    """onnx-diagnostic divides by the right value + 1e-3: twice 1e-5 is off by 1 %."""
    right = np.full(4, 1e-5)
    value = 2 * right
    assert np.max(np.abs(value - right) / (np.abs(right) + 1e-3)) < 0.01
    assert relative_difference(value, right) == pytest.approx(1)
    limit = float(spacing(np.array(1e-5), np.dtype("float32")))
    assert _compared(value, right, limit).is_wrong
