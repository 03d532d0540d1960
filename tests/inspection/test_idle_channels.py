"""Channels that never vary or repeat another one: planted in weights, left by a ReLU, and not seen where none are."""

import numpy as np
import pytest

import kokoro_nb as nb
from kokoro_nb.inspection.idle_channels import LEAST, idle


@pytest.fixture
def weights():
    """A convolution's weights, (8, 4, 3)."""
    return np.random.default_rng(0).standard_normal((8, 4, 3)).astype(np.float32)


@pytest.fixture
def inspected(save, node):
    """Return a function that inspects a convolution and a ReLU behind it."""

    def inspect(weights, bias=None):
        bias = np.zeros(8, np.float32) if bias is None else bias
        nodes = [node("Conv", ["x", "w", "b"], ["c"], name="/conv"), node("Relu", ["c"], ["y"], name="/relu")]
        x = np.random.default_rng(1).standard_normal((1, 4, 40)).astype(np.float32)
        return nb.inspect(save(nodes, {"x": [1, 4, 40]}, ["y"], {"w": weights, "b": bias}), {"x": x})

    return inspect


def test_channels_that_all_differ_are_not_named(inspected, weights):
    report = inspected(weights)
    assert report.idle == ()
    assert report.verdict == "pass"


def test_channels_without_weights_and_of_equal_weights_are_named_once_with_the_cause(inspected, weights):
    weights[2], weights[6] = 0, weights[1]
    report = inspected(weights)
    (found,) = report.idle  # and not at the ReLU again
    assert (found.key, found.channels, found.dead, found.doubled) == ("/conv", 8, (2,), ((1, 6),))
    assert found.cause == "their weights are 0 or the same"
    assert any("/conv (Conv), channels of 8: 2 never vary; 6 (as 1) repeat" in note for note in report.notes)
    assert report.verdict == "pass"  # it is no fault by itself


def test_a_channel_that_a_relu_leaves_silent_is_named_there_and_not_blamed_on_the_weights(inspected, weights):
    bias = np.zeros(8, np.float32)
    bias[5] = -1000
    (found,) = inspected(weights, bias).idle
    assert (found.key, found.dead, found.doubled, found.cause) == ("/relu", (5,), (), "")
    assert "other inputs may move them" in str(found)


def test_what_is_the_same_along_the_whole_tensor_is_no_silent_channel():
    spread = np.repeat(np.arange(6.0)[:, None], LEAST, axis=1)[None]
    assert idle(spread, 1) == (frozenset(), frozenset())
    varying = np.random.default_rng(0).standard_normal((1, 6, LEAST))
    varying[0, 3] = 2.0
    assert idle(varying, 1) == (frozenset({3}), frozenset())
    assert idle(varying[:, :, :-1], 1) == (frozenset(), frozenset())  # too few to tell
    varying[0, 0, 0] = np.nan
    assert idle(varying, 1) == (frozenset(), frozenset())
