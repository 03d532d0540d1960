"""The harness that every case is run by: what counts as wrong, and when it refuses to judge."""

import math
import types

import numpy as np
import pytest
import torch

from kokoro_nb.defects.defect_case import compare, measure

NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("seen", "expected", "limit", "wrong"),
    [
        ([1.0, NAN, INF, -INF], [1.0, NAN, INF, -INF], 0.0, 0),
        ([1.0, 2.5], [1.0, 2.0], 0.25, 0),  # 0.5 of a peak of 2 is the limit itself
        ([1.0, 2.2], [1.0, 2.0], 0.05, 1 / 2),
        ([NAN, 1.0], [0.0, 1.0], 1e9, 1 / 2),
        ([INF], [-INF], 1e9, 1),
        ([1.0, 2.0], [1.0, 2.0, 3.0], 1e9, 1),
    ],
)
def test_an_element_is_wrong_if_it_is_off_or_of_another_kind(seen, expected, limit, wrong):
    assert compare(np.array(seen), np.array(expected), limit).wrong == wrong


def test_the_error_is_of_the_peak_and_the_worst_element_is_shown():
    figure = compare(np.array([1.0, -4.0, NAN]), np.array([1.5, -2.0, 10.0]), 0.1)
    assert figure.error == pytest.approx(0.2)  # 2 of 10
    assert (figure.seen, figure.expected) == ("nan", "10")  # what is no number is worst


def _case(seen, error=""):
    about = {"limit": 0.0, "error": error, "inputs": {"x": torch.ones(2)}, "expected": lambda inputs: np.ones(2)}
    return types.SimpleNamespace(**about, seen=lambda inputs, mended, run: seen(mended))


def _raising(mended):
    if not mended:
        raise ValueError("Cannot do it")
    return np.ones(2)


def test_the_error_that_is_the_defect_is_a_figure():
    figure = measure(_case(_raising, "Cannot do"), None, False)
    assert (figure.wrong, figure.seen, figure.expected) == (1, "Cannot do", "a result")
    assert measure(_case(_raising, "Cannot do"), None, True).wrong == 0

    with pytest.raises(ValueError, match="Cannot do it"):
        measure(_case(_raising, "another"), None, False)
