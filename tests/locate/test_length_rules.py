"""Padding that takes part in statistics: known by the statistics that give what is right."""

import numpy as np
import pytest

from kokoro_nb.locate.local_error import LocalError
from kokoro_nb.locate.rule_evidence import Evidence
from kokoro_nb.locate.tensor_rules import frozen_length, padded_statistics
from kokoro_nb.traces.operators import Operator

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


@pytest.mark.parametrize(("value", "words"), [(0, "0"), (None, "what it is at position 19")])
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
