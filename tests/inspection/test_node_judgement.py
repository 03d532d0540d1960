"""Comparing one tensor with what is right: the traps that the metrics of other tools fall into, each shown first."""

import numpy as np
import pytest

from kokoro_nb.inspection.file_run import relative_difference
from kokoro_nb.inspection.node_judgement import compared, judged_outputs
from kokoro_nb.inspection.rounding_limits import gamma, spacing
from kokoro_nb.inspection.semantics.onnx_call import OnnxCall, dtypes_of
from kokoro_nb.inspection.whole_file import signal_to_noise


def _compared(value, right, limit=1e-6):
    return compared("y", np.asarray(value, np.float32), np.asarray(right, np.float64), np.full(np.shape(right), limit))


def test_nan_is_not_made_zero():
    """ExecuTorch's Inspector maps NaN to 0 first, ai-edge-quantizer to 1e-9: all NaN against zeros is perfect there."""
    bad, right = np.full(8, np.nan), np.zeros(8)
    assert np.mean((np.nan_to_num(bad) - right) ** 2) == 0
    assert _compared(bad, right).is_wrong
    assert _compared(bad, right).finite == 0
    assert relative_difference(bad, right) == np.inf
    assert signal_to_noise(bad, right) is None


def test_infinity_is_not_made_a_large_number():
    """An infinity made 1e9 or 1.8e308 is a difference like others; one that should be there is none at all."""
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
    before = value.copy()
    _compared(value, [1, 1, 1])
    assert value.tobytes() == before.tobytes()


def test_a_silent_reference_is_not_forgiven():
    """Coremltools adds 1e-5 above and 1e-10 below: an output of 0 where 1e-5 is right scores 47 dB."""
    right, value = np.full(100, 1e-5), np.zeros(100)
    signal, noise = np.mean(right**2), np.mean((value - right) ** 2)
    assert 10 * np.log10((signal + 1e-5) / (noise + 1e-10)) > 40
    assert signal_to_noise(value, right) == 0.0  # dB: the noise is as loud as the signal
    assert signal_to_noise(np.full(4, 1e-9), np.zeros(4)) is None
    assert signal_to_noise(np.zeros(4), np.zeros(4)) == np.inf  # no noise; ORT's debugger says 0 dB, the worst of all


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
    """PPQ draws 4096 elements: one of 512 channels of 2000 elements can be missed."""
    right = np.random.default_rng(0).standard_normal((1, 512, 200))
    value = right.copy()
    value[0, 137] = 0
    found = _compared(value, right)
    assert found.is_wrong
    assert found.pattern == "1 of 512 channels, 1 of them wholly"
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


def test_unsigned_weights_do_not_wrap():
    """ORT's debugger subtracts a zero point from uint8 in uint8: 5 - 128 is 133."""
    assert np.uint8(5) - np.uint8(128) == 133
    node = _node("DequantizeLinear", 3)
    inputs = [np.array([5], np.uint8), np.float32(0.5), np.uint8(128)]
    errors, exact = judged_outputs(OnnxCall(node, {"": 18}, dtypes_of(inputs)), inputs, [np.array([-61.5], np.float32)])
    assert exact[0] == -61.5
    assert not errors[0].is_wrong


def test_an_integer_beside_a_tie_may_be_either():
    node = _node("QuantizeLinear", 3)
    inputs = [np.array([0.25, 0.25, 0.3], np.float32), np.float32(0.1), np.uint8(0)]
    call = OnnxCall(node, {"": 18}, dtypes_of(inputs))
    for given, wrong in (([2, 3, 3], 0), ([2, 3, 2], 1), ([4, 3, 3], 1)):
        errors, _ = judged_outputs(call, inputs, [np.array(given, np.uint8)])
        assert errors[0].wrong == wrong


def test_the_largest_of_float16_is_no_overflow_and_what_is_beyond_is():
    right = np.array([65504.0, 65530.0, 1e5])
    value = right.astype(np.float32).astype(np.float16)
    found = compared("y", value, right, spacing(right, np.dtype("float16")))
    assert not found.is_wrong
    assert found.right_finite == pytest.approx(1 / 3) if np.isinf(value[1]) else pytest.approx(2 / 3)


def test_the_spacing_of_floats_is_that_of_numpy():
    values = np.array([1.0, 1.5, 3.0, 1e-3, 1e-40, 0.0, -7.0, 3e38])
    assert np.array_equal(spacing(values, np.dtype("float32")), np.abs(np.spacing(values.astype(np.float32))))
    halves = np.array([1.0, 2047.0, 6e-8, 60000.0])
    assert np.array_equal(spacing(halves, np.dtype("float16")), np.abs(np.spacing(halves.astype(np.float16))))
    assert spacing(np.array([1.0]), np.dtype("float32"))[0] == 2.0**-23


def test_the_bound_of_a_sum_grows_with_its_length_and_holds():
    random = np.random.default_rng(0)
    for length in (10, 1000, 100_000):
        terms = random.standard_normal((20, length)).astype(np.float32)
        exact = terms.astype(np.float64).sum(axis=1)
        ordered = np.cumsum(terms, axis=1)[:, -1].astype(np.float64)  # in order, in float32
        bound = gamma(length, 2.0**-24) * np.abs(terms.astype(np.float64)).sum(axis=1)
        assert (np.abs(ordered - exact) <= bound).all()
    assert gamma(4, 2.0**-24) < 5 * 2.0**-24


def _node(kind, inputs, **attributes):
    from onnx import helper

    return helper.make_node(kind, [f"i{k}" for k in range(inputs)], ["y"], **attributes)
