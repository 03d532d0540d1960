"""Constants that differ where what they make looks the same, or has no inputs by which it could be paired."""

import numpy as np
import pytest

import kokoro_nb as nb

WEIGHTS = np.random.default_rng(0).standard_normal((16, 16)).astype(np.float32)


@pytest.fixture
def linear(save, node):
    """Write two products that read the same, with other weights each, and a third one on their sum."""

    def make(name, turned=None, prefix=""):
        weights = {"q": WEIGHTS, "k": WEIGHTS[::-1] * np.float32(0.7), "o": WEIGHTS.T}
        if turned is not None:
            weights[turned] = weights[turned].copy()
            weights[turned][:, 3] *= -1
        nodes = [
            node("MatMul", ["x", f"{prefix}q"], ["a"], name=f"{prefix}/q"),
            node("MatMul", ["x", f"{prefix}k"], ["b"], name=f"{prefix}/k"),
            node("Add", ["a", "b"], ["c"], name=f"{prefix}/add"),
            node("MatMul", ["c", f"{prefix}o"], ["y"], name=f"{prefix}/o"),
        ]
        constants = {f"{prefix}{key}": np.ascontiguousarray(value) for key, value in weights.items()}
        return save(nodes, {"x": [40, 16]}, ["y"], constants, name=name)

    return make


@pytest.mark.parametrize("turned", ["q", "k", "o"])
def test_a_channel_with_the_other_sign_is_named_though_its_elements_are_as_large(linear, turned):
    report = nb.inspect(linear("b.onnx", turned, "other"), against=linear("a.onnx"))
    assert (report.first.key, report.first.kind, report.first.blame) == (f"other/{turned}", "structure", "file")
    assert "16 of 256 values differ" in report.first.statement
