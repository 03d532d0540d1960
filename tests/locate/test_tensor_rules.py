"""Rules for lengths and variances: what statistics or padding give what is right."""

import numpy as np
import pytest
import torch

from kokoro_nb.locate.local_error import LocalError
from kokoro_nb.locate.rule_evidence import Evidence
from kokoro_nb.locate.tensor_forms import places
from kokoro_nb.locate.tensor_rules import frozen_length, padded_statistics
from kokoro_nb.traces.trace import Operator
from tests.locate.normed_signals import noise, normed, with_channels

VALID, WHOLE = 24, 64
X = np.random.default_rng(0).standard_normal((1, 4, WHOLE)) + 1
X[..., VALID:] = 0


def _normed(of):
    scale, shift = np.arange(1, 5)[:, None], np.arange(4)[:, None]
    part = X[..., :VALID]
    return scale * (part - of.mean(-1, keepdims=True)) / of.std(-1, keepdims=True) + shift


def _asked(given, right, x=X, op="aten.instance_norm.default", rule=padded_statistics):
    operator = Operator(":it", op, "", ("input:x",), right.shape, "float32")
    error = LocalError(operator, float("nan"), 1.0, float("inf"), given != right, given, right, ())
    return rule(Evidence(error, {"input:x": x.astype(np.float32)}))


def test_statistics_of_the_whole_buffer_are_known_by_those_of_its_valid_part():
    found = _asked(_normed(X), _normed(X[..., :VALID]))
    assert found.name == "padding leaking through statistics"
    assert found.evidence == ("right with mean and deviation of the first 24 of 64 positions, to 100 %",)


@pytest.mark.parametrize("change", [lambda y: y + 1, lambda y: y * np.linspace(1, 2, VALID), lambda y: -y])
def test_what_other_statistics_do_not_explain_is_not_put_down_to_them(change):
    right = _normed(X[..., :VALID])
    assert _asked(_normed(X), change(right)) is None


def test_a_buffer_that_is_full_has_no_padding_and_other_operators_no_statistics():
    given, right = _normed(X), _normed(X[..., :VALID])
    assert _asked(given, right, X[..., :VALID]) is None
    assert _asked(given, right, op="aten.sin.default") is None
    assert _asked(given * np.nan, right) is None


def _frozen(fault):
    right = np.sin(X + np.arange(WHOLE))
    return _asked(fault(right.copy()), right, op="aten.lstm.input", rule=frozen_length)


def _tail(value):
    def fault(y):
        y[..., 20:] = y[..., 19:20] if value is None else value
        return y

    return fault


@pytest.mark.parametrize(("value", "words"), [(0, "0"), (None, "the value at position 19")])
def test_a_length_that_was_frozen(value, words):
    found = _frozen(_tail(value))
    assert found.name == "frozen length"
    assert found.evidence == (f"right at the first 20 of 64 positions, and behind them {words}",)


def _moved(y):
    y[..., 20:] += 1
    return y


def _early(y):
    y[..., 3] += 1
    return _tail(0)(y)


@pytest.mark.parametrize("fault", [_moved, _early, lambda y: 0 * y])
def test_no_length_that_was_frozen(fault):
    assert _frozen(fault) is None


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


def _one_pass(x):
    """Return an instance norm whose mean and mean square are rounded to float32, and nothing else."""
    mean, square = (one.mean(-1, keepdims=True).astype(np.float32).astype(float) for one in (x, x.astype(float) ** 2))
    return (x - mean) / np.sqrt(square - mean**2 + 1e-5)


def _lifted():
    return noise((1, 4, 256)) + np.float32(60)  # mean² / variance of 3600 costs some digits, not all


def test_a_few_digits_of_a_variance_in_one_pass(causes):
    found = causes("instance_norm.default", normed, lambda y: _one_pass(_lifted()), _lifted())[VARIANCE]
    assert found.explained > 0.99
    assert found.evidence[0].startswith("the error is in the factor of the deviation, by ")
    assert found.evidence[1].startswith("mean² / variance of its input is 3")


@pytest.mark.parametrize(
    ("op", "fault", "x"),
    [
        ("instance_norm.default", with_channels([1], np.nan), _steep(0, 2)),  # wrong where the mean is small
        ("instance_norm.default", with_channels([0, 1], np.nan), _steep(0, 2)),  # and there too
        ("mul.Tensor", with_channels([0, 2], np.nan), _steep(0, 2)),  # no variance in it
        ("instance_norm.default", lambda y: y * 1.01, _lifted()),  # one pass loses less
        ("instance_norm.default", lambda y: y * 1.0002 + 1e-3, _lifted()),  # the mean is wrong as well
        ("instance_norm.default", lambda y: y + 2e-4 * np.random.default_rng(1).standard_normal(y.shape), _lifted()),
        ("instance_norm.default", lambda y: y * 1.0002, noise()),  # a factor of data around zero
    ],
)
def test_no_variance_in_one_pass(causes, op, fault, x):
    assert VARIANCE not in causes(op, normed, fault, x)


def test_one_number_points_at_one_element_or_at_all_of_a_row():
    last = torch.tensor(2)
    assert places((5,), {0: last}).tolist() == 2
    assert places((5, 3), {0: last}).tolist() == [6, 7, 8]
    assert places((5, 3), {1: torch.tensor([2, 0])}).tolist() == [[2, 0], [5, 3], [8, 6], [11, 9], [14, 12]]
