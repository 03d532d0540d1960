import numpy as np
import pytest

from kokoro_nb.studies.executorch_0_7.norm_kernel import EPSILON, AccumulatingNorm

SWING = np.array([[[1.0, -1.0]]], np.float32)  # sum 0, sum of squares 2, length 2: mean 0, variance 1


def test_the_first_call_is_right():
    x = np.random.default_rng(0).normal(1, 0.5, (1, 3, 40)).astype(np.float32)
    centred = x.astype(float) - x.mean(-1, keepdims=True, dtype=float)
    right = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + EPSILON)
    assert np.abs(AccumulatingNorm(3)(x) - right).max() < 1e-5  # float32, in one pass: 2e-6 here


def test_the_second_call_adds_to_what_the_first_left():
    norm = AccumulatingNorm(1)
    first = 1 / np.sqrt(1 + EPSILON)
    assert norm(SWING)[0, 0, 0] == pytest.approx(first, rel=1e-6)
    # (1 / sqrt(1 + eps) + 2) / 2 = 1.5 takes the place of the variance
    assert norm(SWING)[0, 0, 0] == pytest.approx(1 / np.sqrt((first + 2) / 2 + EPSILON), rel=1e-6)


def test_a_mean_makes_the_variance_negative_and_that_stays():
    norm, x = AccumulatingNorm(1), np.array([[[1.0, 3.0]]], np.float32)
    assert np.isfinite(norm(x)).all()
    assert np.isnan(norm(x)).all()  # (2 + 4) / 2 = 3; (1 + 10) / 2 - 9 < 0
    assert np.isnan(norm(SWING)).all()


def test_cleared_memory_forgets():
    norm = AccumulatingNorm(1, cleared=True)
    first = norm(SWING)
    norm(np.full_like(SWING, np.nan))
    assert np.array_equal(norm(SWING), first)
