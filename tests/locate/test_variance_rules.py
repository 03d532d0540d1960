"""Which norms are held to take their variance in one pass, and which are wrong in another way."""

import numpy as np
import pytest

from tests.locate.normed_signals import noise, normed, with_channels


def _steep(*channels):
    """Return noise, of which some channels lie at 1000 with a deviation of 1."""
    x = noise()
    x[:, list(channels)] += 1000
    return x


VARIANCE = "a variance in one pass, E[x²] - E[x]²"


def test_a_variance_in_one_pass(causes):
    found = causes("instance_norm.default", normed, with_channels([0, 2], np.nan), _steep(0, 2))[VARIANCE]
    assert found.against == ()
    assert "in the wrong channels" in found.evidence[0]
    x = _steep(0, 2).astype(float)
    steep = (x.mean(-1) ** 2 / x.var(-1))[0]
    assert found.evidence[0].startswith(f"mean² / variance of its input is {min(steep[0], steep[2]):.2g} or more")
    assert found.evidence[1] == f"and {max(steep[1], steep[3]):.2g} at most in the others"
    assert np.isnan(found.explained)


def test_a_steep_channel_that_is_right_speaks_against_it(causes):
    x = _steep(0, 2)
    x[:, 2] = 0.3 * (x[:, 2] - 1000) + 1000
    assert causes("instance_norm.default", normed, with_channels([0], np.nan), x)[VARIANCE].against


@pytest.mark.parametrize(
    ("op", "channels", "x"),
    [
        ("instance_norm.default", [1], _steep(0, 2)),  # wrong where the mean is small
        ("instance_norm.default", [0, 1], _steep(0, 2)),  # and there too
        ("mul.Tensor", [0, 2], _steep(0, 2)),  # no variance in it
    ],
)
def test_no_variance_in_one_pass(causes, op, channels, x):
    assert VARIANCE not in causes(op, normed, with_channels(channels, np.nan), x)


def _one_pass(x):
    """Return an instance norm whose mean and mean square are rounded to float32, and nothing else."""
    mean, square = (one.mean(-1, keepdims=True).astype(np.float32).astype(float) for one in (x, x.astype(float) ** 2))
    return (x - mean) / np.sqrt(square - mean**2 + 1e-5)


def _lifted():
    return noise((1, 4, 256)) + np.float32(60)  # mean² / variance of 3600 costs some digits, not all


def test_a_few_digits_of_a_variance_in_one_pass(causes):
    found = causes("instance_norm.default", normed, lambda y: _one_pass(_lifted()), _lifted())[VARIANCE]
    assert found.explained > 0.99
    assert found.evidence[0].startswith("what is wrong is the factor of the deviation, by ")
    assert found.evidence[1].startswith("mean² / variance of its input is 3")


@pytest.mark.parametrize(
    "spoil",
    [
        lambda y: y * 1.01,  # one pass loses less
        lambda y: y * 1.0002 + 1e-3,  # the mean is wrong as well
        lambda y: y + 2e-4 * np.random.default_rng(1).standard_normal(y.shape),
    ],
)
def test_another_error_of_a_norm_is_no_variance_in_one_pass(causes, spoil):
    assert VARIANCE not in causes("instance_norm.default", normed, spoil, _lifted())


def test_a_factor_of_data_around_zero_is_no_variance_in_one_pass(causes):
    assert VARIANCE not in causes("instance_norm.default", normed, lambda y: y * 1.0002, noise())
