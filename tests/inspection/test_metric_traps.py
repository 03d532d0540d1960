"""Traps that the metrics of other tools fall into, and ours do not; beside each case what the tool makes of it."""

import numpy as np
import pytest

from kokoro_nb.inspection.judged_run import stated
from kokoro_nb.inspection.node_judgement import NodeJudgement, compared, relative_noise
from kokoro_nb.inspection.whole_file import signal_to_noise
from kokoro_nb.locate.rounding_bound import spacing
from kokoro_nb.traces.statistics import relative_difference

NOISE = np.random.default_rng(0).standard_normal(1000)
ONES = np.ones(100)
BAD_ITEM = np.arange(12.0).reshape(3, 4) + (np.arange(12).reshape(3, 4) == 9)


def _compared(value, right, limit=1e-6):
    return compared("y", np.asarray(value, np.float32), np.asarray(right, np.float64), np.full(np.shape(right), limit))


def _spacing(size):
    return float(spacing(np.array(size), np.dtype("float32")))


WRONG = {
    "NaN is made 0 or 1e-9 (ExecuTorch's Inspector, ai-edge-quantizer)": (np.full(8, np.nan), np.zeros(8)),
    "infinity is made 1e9 (ai-edge-quantizer)": ([np.inf, 1], [1e9, 1]),
    "an infinity of the other sign is made the same": ([-np.inf, 1], [np.inf, 1]),
    "a mean square error of 0.0049 is 0.00 (ExecuTorch's compare_results)": (ONES + 0.07, ONES),
    "a cosine in two digits is blind to scale (ExecuTorch's compare_results)": (3 * NOISE, NOISE),
    "the median of the ratios is 0 (ai-edge-quantizer)": (np.where(np.arange(100) < 49, 1e6, 1), ONES),
    "the first item of a batch is compared (Neural Insights)": (BAD_ITEM, np.arange(12.0).reshape(3, 4)),
    "wrong is what is beyond both tolerances (Polygraphy)": ([1e-3 + 9e-6], [1e-3], _spacing(1e-3)),
    "right + 1e-3 stands below (onnx-diagnostic)": ([2e-5], [1e-5], _spacing(1e-5)),
    "NaN is not above 512 (AutoCast)": ([np.nan], [1.0], np.nan),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_called_so(case):
    assert _compared(*WRONG[case]).is_wrong


def test_what_is_rightly_not_finite_is_told_and_no_array_is_changed():
    """onnx-diagnostic puts 1e10 in the place of NaN, and ai-edge-quantizer does so in the caller's array."""
    value = np.array([np.nan, np.inf, 1.0], np.float32)
    before = value.tobytes()
    found = _compared(value, value)
    assert not found.is_wrong
    assert found.finite == found.right_finite == pytest.approx(1 / 3)
    assert value.tobytes() == before
    assert "gives 100.00% values" in stated(NodeJudgement(0, "/log", "Log", "fail"), _compared(value * np.nan, value))


def test_one_bad_channel_is_seen_among_many():
    """PPQ draws 4096 elements: of a tensor with 25 times as many, some bad elements are missed."""
    right = np.random.default_rng(0).standard_normal((1, 512, 200))
    value = right.copy()
    value[0, 137] = 0
    found = _compared(value, right)
    assert (found.is_wrong, found.wrong) == (True, 200)
    assert found.pattern == "1 of 512 channels wholly"


@pytest.mark.parametrize(
    ("value", "right", "expected"),
    [
        (np.full(8, np.nan), np.zeros(8), np.inf),
        (np.arange(4.0), np.arange(8.0), np.inf),  # a tap that compares the first min(len) elements passes it
        ([0, 1e-21, 0], np.zeros(3), np.inf),  # Polygraphy adds 2e-16 where 0 is right
        (1.0001 * 1e4 * ONES, 1e4 * ONES, 1e-4),  # AIMET's unscaled error ranks it above what is wholly wrong
        (0 * ONES, 1e-3 * ONES, 1),
        (2e-5 * ONES, 1e-5 * ONES, 1),
        (-ONES + 1e-3, -ONES, 1e-3),  # the peak is a size: Polygraphy takes the largest value
        (1000 * ONES + 5, ONES, 1004),  # Neural Insights scales each side to 0 to 1
    ],
)
def test_differences_are_relative_to_the_peak(value, right, expected):
    assert relative_difference(np.asarray(value), right) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("value", "right", "noise", "decibels"),
    [
        (np.full(8, np.nan), np.zeros(8), None, None),
        (np.arange(4.0), np.arange(8.0), None, None),
        ([np.inf, 1], [1.0, 1], None, None),  # ORT's debugger raises
        (np.zeros(4), np.zeros(4), 0, np.inf),  # ORT's debugger: 0 dB, the worst of a list
        (ONES, ONES, 0, np.inf),  # and 319 dB
        (0 * ONES, 1e-5 * ONES, 1, 0),  # coremltools adds 1e-5 above and 1e-10 below: 47 dB; PPQ: 9 %
        (np.full(4, 1e-9), np.zeros(4), np.inf, None),
        (1.1 * ONES, ONES, 0.1, 20),  # ai-edge-quantizer calls the ratio of powers, 100, SNR
        (1.1 * NOISE.reshape(2, 500), NOISE.reshape(2, 500), 0.1, 20),  # coremltools divides by the first axis
        (NOISE + 1e-5, NOISE, None, 99.8),  # AI Hub Models takes its epsilon for the peak: -100 dB
        *(((1.5 * ONES * s).astype(d), (ONES * s).astype(d), 0.5, 6.02) for d, s in (("f4", 1e20), ("f2", 300))),
    ],
)
def test_noise_is_relative_to_the_signal(value, right, noise, decibels):
    found = signal_to_noise(np.asarray(value), np.asarray(right))
    assert found is None if decibels is None else found == pytest.approx(decibels, abs=0.05)
    if noise is not None:
        assert relative_noise(np.asarray(value), np.asarray(right)) == pytest.approx(noise, rel=1e-2)
